// cflags: -m32
// needs: /usr/lib32/crt1.o
// A signal's frame at the end of what is mapped: nothing that lies behind it is part of it.
#include "../guest.h"
#include <sys/mman.h>

enum { LEN = 1 << 16 };

static volatile sig_atomic_t count;

static void simple(int sig) { count += sig; }

static void detailed(int sig, siginfo_t *info, void *context) {
  (void)context;
  CHECK(info->si_signo == sig);
  count += sig;
}

int main(void) {
  char *stack = mmap(NULL, LEN + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED && munmap(stack + LEN, PAGE) == 0);
  stack_t alternate = {.ss_sp = stack, .ss_size = LEN};
  CHECK(sigaltstack(&alternate, NULL) == 0);
  on_signal(SIGUSR1, simple, SA_ONSTACK);
  on_siginfo(SIGUSR2, detailed, SA_ONSTACK);
  CHECK(raise(SIGUSR1) == 0 && raise(SIGUSR2) == 0 && count == SIGUSR1 + SIGUSR2);
  return guest_ok();
}
