// A thread spins in code that was made at run time until others are ready, and counts its rounds where no pointer leads: in a page of a
// large mapping whose address is not in memory as it is. Registers and all that they point to are the same in each round.
#include "../guest.h"
#include <pthread.h>

enum { THREADS = 3, LEN = 8 << 20 };
static volatile int ready;
static uint64_t hidden;

// The code of the loop, which is called with the address of `hidden`, its key, and the address of `ready`; and a round's count.
void loop_begin(void), loop_end(void);
#define LOOP(code) __asm__("loop_begin: " code "; ret; loop_end:\n");
#define COUNT "mov (%rdi), %rax; xor %rsi, %rax; incq (%rax); xor %eax, %eax; cmpl $3, (%rdx); jl 1b"

static void *works(void *arg) {
  volatile long sum = 0;
  for (int round = 0; round < 20; round++) {
    getppid();
    for (long i = 0; i < 200000; i++) sum += i;
  }
  __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
  return arg;
}

static int count_far_away(void) {
  uint64_t key = 0x5555aaaa5555aaaa;
  char *far = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(far != MAP_FAILED && code != MAP_FAILED);
  hidden = (uint64_t)(far + LEN / 2 + 0x678) ^ key;
  far = NULL;
  memcpy(code, (void *)loop_begin, (size_t)((char *)loop_end - (char *)loop_begin));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, works, NULL) == 0);
  ((void (*)(uint64_t *, uint64_t, volatile int *))code)(&hidden, key, &ready);
  uint64_t rounds = *(uint64_t *)(hidden ^ key);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  printf("%lu\n", rounds);
  return guest_ok();
}
