// A handler sees number, sender and value; flags SA_RESETHAND, SA_NODEFER; masks while it runs.
#include "../guest.h"

static volatile int calls, depth, deepest;
static volatile pid_t sender;

static void info_handler(int sig, siginfo_t *info, void *ctx) {
  CHECK(sig == SIGUSR1 && info->si_signo == SIGUSR1 && info->si_code == SI_USER && ctx);
  sender = info->si_pid;
  CHECK(info->si_uid == getuid());
  sigset_t now;
  CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
  CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2) == 0);
  calls++;
}

static void nested(int sig) {
  if (++depth > deepest) deepest = depth;
  if (depth < 4) CHECK(raise(sig) == 0);
  depth--;
}

int main(void) {
  on_siginfo(SIGUSR1, info_handler, 0);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  CHECK(calls == 1 && sender == getpid());
  on_signal(SIGUSR2, nested, SA_NODEFER);
  CHECK(raise(SIGUSR2) == 0 && deepest == 4 && depth == 0);
  on_signal(SIGUSR2, nested, SA_RESETHAND);
  depth = 3;
  CHECK(raise(SIGUSR2) == 0);
  struct sigaction sa;
  CHECK(sigaction(SIGUSR2, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL);
  CHECK(signal(SIGUSR2, SIG_IGN) == SIG_DFL && raise(SIGUSR2) == 0);
  CHECK_ERRNO(sigaction(SIGKILL, &sa, NULL), EINVAL);
  CHECK(kill(getpid(), 0) == 0);
  CHECK_ERRNO(kill(getpid(), 65), EINVAL);
  printf("sent by %d\n", sender);
  return guest_ok();
}
