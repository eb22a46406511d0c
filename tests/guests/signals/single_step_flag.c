// A program that sets its own trap flag gets SIGTRAP after each instruction until it clears it.
#include "../guest.h"
#include <ucontext.h>

static volatile int steps;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig;
  CHECK(info->si_code == TRAP_TRACE);
  ucontext_t *uc = ctx;
  if (++steps >= 5) uc->uc_mcontext.gregs[REG_EFL] &= ~0x100l;
}

int main(void) {
  on_siginfo(SIGTRAP, handler, 0);
  __asm__ volatile(
      "pushfq\n orq $0x100, (%%rsp)\n popfq\n"
      "nop\n nop\n nop\n nop\n nop\n nop\n nop\n" ::: "cc", "memory");
  CHECK(steps == 5);
  printf("%d steps\n", steps);
  return guest_ok();
}
