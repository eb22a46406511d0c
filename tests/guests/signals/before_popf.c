// A handler that begins right before an instruction that sets the flags: what it returns to has the program's own
// flags, although a tracer brings the handler about by a single step.
#include "../guest.h"
#include <ucontext.h>

static volatile int got;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)info;
  got++;
  CHECK((((ucontext_t *)ctx)->uc_mcontext.gregs[REG_EFL] & 0x100) == 0);
}

int main(void) {
  on_siginfo(SIGUSR1, handler, 0);
  for (int i = 1; i <= 20; i++) {
    long result = SYS_kill;
    __asm__ volatile("pushfq\n syscall\n popfq\n nop\n nop"
                     : "+a"(result)
                     : "D"((long)getpid()), "S"((long)SIGUSR1)
                     : "rcx", "r11", "cc", "memory");
    CHECK(result == 0 && got == i);
  }
  return guest_ok();
}
