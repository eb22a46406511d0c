// The same as counts_far_away with a loop in that loop: the inner one counts on the stack, the outer one far away.
#include "../guest.h"
#include <pthread.h>

enum { THREADS = 3, LEN = 8 << 20 };
static volatile int ready;
static uint64_t hidden;

void loop_begin(void), loop_end(void);
__asm__("loop_begin:\n"
        "sub $64, %rsp; 1: movl $100, 8(%rsp); 2: nop; nop; nop; nop; nop; nop; decl 8(%rsp); jnz 2b\n"
        "mov (%rdi), %rax; xor %rsi, %rax; incq (%rax); xor %eax, %eax; cmpl $3, (%rdx); jl 1b; add $64, %rsp; ret\n"
        "loop_end:\n");

static void *works(void *arg) {
  volatile long sum = 0;
  for (int round = 0; round < 20; round++) {
    getppid();
    for (long i = 0; i < 200000; i++) sum += i;
  }
  __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
  return arg;
}

int main(void) {
  uint64_t key = 0x5555aaaa5555aaaa;
  char *far = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(far != MAP_FAILED && code != MAP_FAILED);
  uint64_t *count = (uint64_t *)(far + LEN / 2 + 0x678);
  hidden = (uint64_t)count ^ key;
  memcpy(code, (void *)loop_begin, (size_t)((char *)loop_end - (char *)loop_begin));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, works, NULL) == 0);
  count = NULL, far = NULL;
  ((void (*)(uint64_t *, uint64_t, volatile int *))code)(&hidden, key, &ready);
  uint64_t rounds = *(uint64_t *)(hidden ^ key);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  printf("%lu\n", rounds);
  return guest_ok();
}
