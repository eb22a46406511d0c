// A program that is killed by each fatal signal, ignores the ignorable, and stops by the stopping ones.
#include "../guest.h"
#include <sys/resource.h>

int main(void) {
  struct rlimit none = {0, 0};
  CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
  int fatal = 0, ignored = 0, stopping = 0;
  for (int sig = 1; sig <= 64; sig++) {
    if (sig == 32 || sig == 33) continue;  // libc's own
    pid_t p = fork();
    CHECK(p >= 0);
    if (p == 0) {
      signal(sig, SIG_DFL);
      kill(getpid(), sig);
      _exit(55);
    }
    int status;
    CHECK(waitpid(p, &status, WUNTRACED) == p);
    if (WIFSIGNALED(status)) {
      CHECK(WTERMSIG(status) == sig);
      fatal++;
    } else if (WIFSTOPPED(status)) {
      CHECK(WSTOPSIG(status) == sig && (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU));
      stopping++;
      CHECK(kill(p, SIGCONT) == 0);
      check_exited(p, 55);
    } else {
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 55);
      CHECK(sig == SIGCHLD || sig == SIGCONT || sig == SIGURG || sig == SIGWINCH || sig == SIGTSTP || sig == SIGTTIN ||
            sig == SIGTTOU);
      ignored++;
    }
  }
  // An orphaned process group does not stop for the terminal's signals; then they end by exit(55) as well.
  CHECK(fatal >= 54 && ignored >= 4);
  printf("%d fatal, %d ignored, %d stopping\n", fatal, ignored, stopping);
  return guest_ok();
}
