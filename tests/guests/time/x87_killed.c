// A process that stores the x87 environment in shared memory again and again is killed: what the other one finds there is what
// a replay finds, also where the hook behind the instruction had begun.
// hooked: nothing makes it fault, so only text that is patched is recorded
#include "../guest.h"

struct env {
  uint16_t control, r0, status, r1, tag, r2;
  uint32_t ip, a, operand, b;
};

struct shared {
  volatile uint64_t n;
  struct env e;
  volatile uint64_t m;
};

int main(void) {
  struct shared *s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  volatile double number = 1.5;
  for (int i = 0; i < 40; i++) {
    pid_t p = fork();
    if (p == 0) {
      for (;;) {
        s->n++;
        __asm__ volatile("fldl %1\nfstpl %1\nmov $1, %%eax\nfnstenv %0\nfldenv %0\nnop" : "=m"(s->e), "+m"(number) : : "rax");
        s->m++;
      }
    }
    usleep(300 + i * 17);
    kill(p, SIGKILL);
    check_killed(p, SIGKILL);
    printf("%ld %ld %x %x %x %x\n", s->n, s->m, s->e.ip, s->e.a, s->e.operand, s->e.b);
  }
  return guest_ok();
}
