// A child that has stopped, and whose stop its parent has heard of, is seized: it says at once that it is stopped.
#include "../guest.h"
#include <sys/ptrace.h>

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    raise(SIGSTOP);
    _exit(7);
  }
  int status;
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, __WALL) == pid);
  CHECK(status >> 8 == (PTRACE_EVENT_STOP << 8 | SIGSTOP));
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(kill(pid, SIGCONT) == 0);
  for (;;) {
    CHECK(waitpid(pid, &status, __WALL) == pid);
    if (!WIFSTOPPED(status)) break;
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  return guest_ok();
}
