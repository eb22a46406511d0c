// A program that wants to trace its child: where ptrace works it steps over an exec stop; where it is refused, it says so.
#include "../guest.h"
#include <sys/ptrace.h>

int main(void) {
  int status;
  pid_t p = fork();
  if (p == 0) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(50);
    raise(SIGSTOP);
    _exit(51);
  }
  CHECK(waitpid(p, &status, WUNTRACED) == p);
  if (WIFEXITED(status)) {
    CHECK(WEXITSTATUS(status) == 50);
    puts("tracing is refused here");
    return guest_ok();
  }
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_CONT, p, 0, 0) == 0);
  check_exited(p, 51);
  puts("tracing works here");
  return guest_ok();
}
