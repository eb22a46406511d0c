// Handlers that change what they have interrupted: its instruction pointer, its registers, its vector registers.
#include "../guest.h"
#include <sys/time.h>
#include <ucontext.h>

static volatile int came;
extern char spin_begin[], spin_end[], spin_out[];

static void handler(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)info;
  ucontext_t *uc = context;
  greg_t *regs = uc->uc_mcontext.gregs;
  char *rip = (char *)regs[REG_RIP];
  if (rip < spin_begin || rip >= spin_end) return;
  came++;
  regs[REG_R8] = came;
  // The lowest four bytes of xmm3.
  uc->uc_mcontext.fpregs->_xmm[3].element[0] = (unsigned)came * 2;
  regs[REG_RIP] = (greg_t)spin_out;
}

int main(void) {
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_siginfo(SIGALRM, handler, 0);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  unsigned long total = 0;
  for (int i = 1; i <= 25; i++) {
    unsigned long n = 0, got;
    unsigned vector;
    __asm__ volatile(
        "mov $0, %%r8d\n"
        ".globl spin_begin\n spin_begin:\n"
        "inc %0\n nop\n nop\n jmp spin_begin\n"
        ".globl spin_end\n spin_end:\n ud2\n"
        ".globl spin_out\n spin_out:\n"
        "mov %%r8, %1\n movd %%xmm3, %2\n"
        : "+r"(n), "=r"(got), "=r"(vector)
        :
        : "r8", "xmm3", "cc", "memory");
    CHECK(got == (unsigned long)i && vector == 2u * (unsigned)i);
    total += n;
  }
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  printf("%lu rounds\n", total);
  return guest_ok();
}
