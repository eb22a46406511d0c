// An attach to a process that sleeps in a call, as strace -p does it: it is shown in its call, then the call is made again
// and shown so, and an interruption shows that it has come back. And a tracer that is killed takes with it whom it traces
// with PTRACE_O_EXITKILL.
#include "seized.h"
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/user.h>

#define ERESTARTSYS 512

static int to_child[2], begun[2];

static int child(void) {
  char c;
  CHECK(write(begun[1], "b", 1) == 1);
  CHECK(read(to_child[0], &c, 1) == 1 && c == 'x');
  _exit(4);
}

static void wait_until_asleep(pid_t pid) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  for (;;) {
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    ssize_t len = read(fd, line, sizeof line - 1);
    close(fd);
    CHECK(len > 0);
    line[len] = 0;
    if (strstr(line, ") S")) return;
    usleep(1000);
  }
}

static long in_read(pid_t pid) {
  struct user_regs_struct regs;
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.orig_rax == SYS_read);
  return regs.rax;
}

static void attaches(void) {
  char c;
  CHECK(pipe(to_child) == 0 && pipe(begun) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) child();
  CHECK(read(begun[0], &c, 1) == 1);
  wait_until_asleep(pid);
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (SIGTRAP | stopped));
  CHECK(in_read(pid) == -ERESTARTSYS);
  // It is made again.
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (SIGTRAP | 0x80));
  CHECK(in_read(pid) == -ENOSYS);
  struct __ptrace_syscall_info info;
  CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY);
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  wait_until_asleep(pid);
  CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (SIGTRAP | 0x80));
  CHECK(in_read(pid) == -ERESTARTSYS);
  // That was the stop it was asked for.
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (SIGTRAP | 0x80));
  CHECK(in_read(pid) == -ENOSYS);
  CHECK(write(to_child[1], "x", 1) == 1);
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (SIGTRAP | 0x80));
  CHECK(in_read(pid) == 1);
  // What it refuses: an option for who administers the kernel, and one that there is not.
  CHECK_ERRNO(ptrace(PTRACE_SETOPTIONS, pid, 0, 1l << 30), EINVAL);
  CHECK_ERRNO(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[4]), 1), EIO);
  CHECK(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[7]), 0) == 0);
  CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  check_exited(pid, 4);
}

static void takes_along(void) {
  int ready[2];
  CHECK(pipe(ready) == 0);
  // Who is left behind comes to us.
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
  pid_t tracer = fork();
  CHECK(tracer >= 0);
  if (tracer == 0) {
    pid_t tracee = fork();
    if (tracee == 0)
      for (;;) pause();
    CHECK(ptrace(PTRACE_SEIZE, tracee, 0, PTRACE_O_EXITKILL) == 0);
    CHECK(write(ready[1], &tracee, sizeof tracee) == sizeof tracee);
    for (;;) pause();
  }
  pid_t tracee;
  CHECK(read(ready[0], &tracee, sizeof tracee) == sizeof tracee);
  CHECK(kill(tracer, SIGKILL) == 0);
  check_killed(tracer, SIGKILL);
  check_killed(tracee, SIGKILL);
}

int main(void) {
  attaches();
  takes_along();
  return guest_ok();
}
