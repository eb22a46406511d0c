// Each signal that can be ignored, to the whole process group, of which whoever started the program is a member too: the
// program ignores them, and nobody else dies of them. Then one that it has a handler for comes once.
#include "../guest.h"

static volatile int came;

static void handler(int sig) {
  (void)sig;
  came++;
}

static bool can_be_ignored(int sig) { return sig != SIGKILL && sig != SIGSTOP; }

// The C library keeps two signals for itself, and refuses them.
static bool ignore(int sig) {
  unsigned long action[4] = {(unsigned long)SIG_IGN};
  return syscall(SYS_rt_sigaction, sig, action, NULL, 8) == 0;
}

int main(void) {
  for (int sig = 1; sig <= 64; sig++) {
    if (can_be_ignored(sig)) CHECK(ignore(sig));
  }
  for (int sig = 1; sig <= 64; sig++) {
    if (can_be_ignored(sig)) CHECK(kill(0, sig) == 0);
  }
  puts("all were ignored");
  int some[] = {SIGABRT, SIGTRAP, SIGFPE, SIGUSR1, SIGVTALRM, SIGSYS, SIGRTMIN + 3, SIGRTMAX};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    CHECK(signal(some[i], handler) == SIG_IGN);
    came = 0;
    CHECK(kill(0, some[i]) == 0);
    // Whoever is in our group and passes signals on to us has had the time.
    struct timespec moment = {.tv_nsec = 20000000};
    while (nanosleep(&moment, &moment) != 0) {
    }
    CHECK(came == 1);
  }
  return guest_ok();
}
