// Blocked signals become pending once each, and arrive when unblocked; sigpending shows them.
#include "../guest.h"

static volatile int got[65];
static void handler(int sig) { got[sig]++; }

int main(void) {
  sigset_t set, old, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2), sigaddset(&set, SIGHUP);
  for (int s = 1; s < 32; s++)
    if (sigismember(&set, s)) on_signal(s, handler, 0);
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  for (int i = 0; i < 3; i++) CHECK(kill(getpid(), SIGUSR1) == 0);
  CHECK(raise(SIGHUP) == 0);
  CHECK(got[SIGUSR1] == 0 && got[SIGHUP] == 0);
  CHECK(sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGUSR1) && sigismember(&pending, SIGHUP) && !sigismember(&pending, SIGUSR2));
  CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  CHECK(got[SIGUSR1] == 1 && got[SIGHUP] == 1 && got[SIGUSR2] == 0);
  // Ignoring a pending signal drops it.
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0 && raise(SIGUSR2) == 0);
  signal(SIGUSR2, SIG_IGN);
  on_signal(SIGUSR2, handler, 0);
  CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0 && got[SIGUSR2] == 0);
  printf("old mask %lx\n", *(unsigned long *)&old);
  return guest_ok();
}
