// A tracer lets a task go, and traces it anew at once, by either way, again and again: nothing is in the way any more.
#include "stepping.h"

enum { ROUNDS = 100 };

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    for (;;) pause();
  for (int round = 0; round < ROUNDS; round++) {
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0 && wait_stop(pid) == SIGTRAP);
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0);
    CHECK(wait_stop(pid) == SIGSTOP);
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  }
  CHECK(kill(pid, SIGTERM) == 0);
  check_killed(pid, SIGTERM);
  return guest_ok();
}
