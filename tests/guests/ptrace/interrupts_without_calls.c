// PTRACE_INTERRUPT of a task that makes no calls, and is mostly in an instruction that has a hook of its own: it stops.
// hooked: nothing makes fnstenv fault, so only text that is patched is recorded
#include "../guest.h"
#include <sys/ptrace.h>

enum { ROUNDS = 8 };

static void stores_environments(void) {
  static char environment[28];
  for (;;) __asm__ volatile("fnstenv %0\n fldenv %0\n nop" : "=m"(environment) : : "memory");
}

static pid_t starts(void) {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(write(pipes[1], "r", 1) == 1);
    stores_environments();
  }
  char byte;
  CHECK(read(pipes[0], &byte, 1) == 1);
  close(pipes[0]);
  close(pipes[1]);
  sleep_ms(3);
  return pid;
}

// A stop comes, within ten seconds.
static int stop_of(pid_t pid) {
  for (int left = 10000; left > 0; left--) {
    int status;
    pid_t found = waitpid(pid, &status, __WALL | WNOHANG);
    CHECK(found == 0 || found == pid);
    if (found == pid) {
      CHECK(WIFSTOPPED(status));
      return status >> 8;
    }
    sleep_ms(1);
  }
  return 0;
}

static void ends(pid_t pid) {
  int status;
  CHECK(kill(pid, SIGKILL) == 0);
  CHECK(waitpid(pid, &status, __WALL) == pid && WIFSIGNALED(status));
}

int main(void) {
  for (int round = 0; round < ROUNDS; round++) {
    pid_t pid = starts();
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    for (int again = 0; again < 3; again++) {
      CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
      CHECK(stop_of(pid) == (SIGTRAP | PTRACE_EVENT_STOP << 8));
      CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    }
    ends(pid);
  }
  puts("all have stopped");
  return guest_ok();
}
