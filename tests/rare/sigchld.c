// A handler waits for one child each time that SIGCHLD comes. Signals of one kind are not queued: of children that end in
// the same moment, one or two are told of. They end twenty milliseconds after one another.
#include "rare.h"

#define CHILDREN 4

static volatile int reaped;

static void on_child(int sig) {
  (void)sig;
  int saved = errno;
  if (waitpid(-1, NULL, WNOHANG) > 0) reaped++;
  errno = saved;
}

int main(void) {
  signal(SIGCHLD, on_child);
  for (int i = 0; i < CHILDREN; i++) {
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
      sleep_us(5000 + i * 20000);
      _exit(0);
    }
  }
  // Until all that is left are children of whom nobody has told: there is one, it has ended, no signal waits.
  for (;;) {
    siginfo_t left = {0};
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    if (reaped == CHILDREN) break;
    MUST(waitid(P_ALL, 0, &left, WEXITED | WNOWAIT) == 0);
    sigset_t pending;
    sigpending(&pending);
    if (!sigismember(&pending, SIGCHLD)) WRONG("a child has ended, and nobody was told (%d of %d)", reaped, CHILDREN);
    sigprocmask(SIG_SETMASK, &old, NULL);
  }
  return right("every child was waited for");
}
