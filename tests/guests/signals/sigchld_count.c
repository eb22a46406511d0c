// A SIGCHLD handler that reaps in a loop counts all children, however the signals merge.
#include "../guest.h"

static volatile int reaped, sum, signals;

static void handler(int sig) {
  (void)sig;
  int saved = errno, status;
  pid_t p;
  signals++;
  while ((p = waitpid(-1, &status, WNOHANG)) > 0) {
    CHECK(WIFEXITED(status));
    reaped++;
    sum += WEXITSTATUS(status);
  }
  errno = saved;
}

int main(void) {
  on_signal(SIGCHLD, handler, SA_RESTART | SA_NOCLDSTOP);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int i = 0; i < 12; i++) {
    pid_t p = fork();
    CHECK(p >= 0);
    if (p == 0) {
      if (i % 3 == 0) usleep(3000);
      _exit(i);
    }
  }
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  while (reaped < 12) sigsuspend(&old);
  CHECK(sum == 66 && signals >= 1 && signals <= 12);
  printf("%d signals for 12 children\n", signals);
  return guest_ok();
}
