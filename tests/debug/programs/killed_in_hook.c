// A child that makes a call again and again is killed, while a process that shares its memory waits for that, and notes
// how far it came.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long before, behind, seen;
static volatile int parent_pid;
static char stack[64 << 10] __attribute__((aligned(16)));

static int looks(void *arg) {
  (void)arg;
  while (syscall(SYS_getppid) == parent_pid) {}
  seen = before;
  char line[32];
  if (write(1, line, snprintf(line, sizeof line, "%lu\n", seen)) < 0) return 1;
  syscall(SYS_exit_group, 0);
  return 0;
}

int main(void) {
  int told[2];
  if (pipe(told)) return 1;
  getppid();
  pid_t child = fork();
  if (child == 0) {
    parent_pid = getpid();
    if (clone(looks, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) < 0) _exit(1);
    for (;;) {
      before++;
      getppid();
      behind++;
      if (behind == 1000 && write(told[1], "x", 1) != 1) _exit(1);
    }
  }
  char byte;
  if (read(told[0], &byte, 1) != 1) return 1;
  kill(child, SIGKILL);
  close(told[1]);
  // The other one has it, too.
  return waitpid(child, NULL, 0) != child || read(told[0], &byte, 1) != 0;
}
