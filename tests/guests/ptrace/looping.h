// A tracee that makes no calls.
#ifndef LOOPING_H
#define LOOPING_H
#include "../guest.h"
#include <sys/ptrace.h>

// A child that has begun to loop.
static pid_t starts(void (*loop)(void)) {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(write(pipes[1], "r", 1) == 1);
    loop();
  }
  char byte;
  CHECK(read(pipes[0], &byte, 1) == 1);
  close(pipes[0]);
  close(pipes[1]);
  sleep_ms(3);
  return pid;
}

// A stop comes, within so many milliseconds; 0: none does.
static int stop_of(pid_t pid, int ms) {
  for (; ms > 0; ms--) {
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
  CHECK(kill(pid, SIGKILL) == 0);
  int status;
  CHECK(waitpid(pid, &status, __WALL) == pid && WIFSIGNALED(status));
}

#endif
