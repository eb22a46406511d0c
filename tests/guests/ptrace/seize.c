// PTRACE_SEIZE: a task is interrupted where it computes and where it waits, stops with its process and is left
// stopped (PTRACE_LISTEN), and goes on untraced.
#include "seized.h"

int main(void) {
  volatile long *count = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(count != MAP_FAILED);
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    while (count[1] == 0) (*count)++;
    char byte;
    CHECK(read(pipes[0], &byte, 1) == 1);
    _exit(byte);
  }
  CHECK_ERRNO(ptrace(PTRACE_SEIZE, pid, 1, 0), EIO);
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  CHECK_ERRNO(ptrace(PTRACE_SEIZE, pid, 0, 0), EPERM);
  CHECK_ERRNO(ptrace(PTRACE_CONT, pid, 0, 0), ESRCH);
  int status;
  CHECK(waitpid(pid, &status, WNOHANG | __WALL) == 0);

  // In the middle of computation, twice: it goes on in between.
  long before = 0;
  do {
    CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    CHECK(stop_of(pid) == (stopped | SIGTRAP));
    before = ptrace(PTRACE_PEEKDATA, pid, count, 0);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  } while (before == 0);
  CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (stopped | SIGTRAP));
  CHECK(ptrace(PTRACE_PEEKDATA, pid, count, 0) >= before);
  // It is let out of its loop.
  CHECK(ptrace(PTRACE_POKEDATA, pid, count + 1, 1) == 0);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);

  // With its process.
  CHECK(kill(pid, SIGSTOP) == 0);
  CHECK(stop_of(pid) == SIGSTOP);
  CHECK(ptrace(PTRACE_CONT, pid, 0, SIGSTOP) == 0);
  CHECK(stop_of(pid) == (stopped | SIGSTOP));
  CHECK(ptrace(PTRACE_LISTEN, pid, 0, 0) == 0);
  CHECK_ERRNO(ptrace(PTRACE_CONT, pid, 0, 0), ESRCH);
  CHECK(kill(pid, SIGCONT) == 0);
  CHECK(stop_of(pid) == (stopped | SIGTRAP));
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == SIGCONT);
  CHECK(ptrace(PTRACE_CONT, pid, 0, SIGCONT) == 0);

  // In a call that waits, which is made again.
  CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (stopped | SIGTRAP));
  CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  CHECK_ERRNO(ptrace(PTRACE_INTERRUPT, pid, 0, 0), ESRCH);
  CHECK(write(pipes[1], "\x21", 1) == 1);
  check_exited(pid, 0x21);
  return guest_ok();
}
