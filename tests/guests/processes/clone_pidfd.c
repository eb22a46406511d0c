// CLONE_PIDFD: the kernel writes the descriptor of the new process where it was told to; also where the parent sleeps
// until the child execs (as Go starts processes), and for clone3.
#include "../guest.h"
#include <linux/sched.h>
#include <sched.h>

static char stack[65536] __attribute__((aligned(16)));

static int child(void *arg) {
  _exit(*(int *)arg);
}

static void await(int fd, int status) {
  siginfo_t info;
  CHECK(fd > 2);
  CHECK(waitid(P_PIDFD, fd, &info, WEXITED) == 0);
  CHECK(info.si_code == CLD_EXITED && info.si_status == status);
  CHECK(close(fd) == 0);
}

int main(void) {
  int fd = -1, status = 7;
  CHECK(clone(child, stack + sizeof stack, CLONE_PIDFD | SIGCHLD, &status, &fd) > 0);
  await(fd, 7);
  fd = -1, status = 8;
  CHECK(clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &status, &fd) > 0);
  await(fd, 8);
  struct clone_args args = {0};
  fd = -1;
  args.flags = CLONE_PIDFD;
  args.pidfd = (unsigned long)&fd;
  args.exit_signal = SIGCHLD;
  long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) _exit(9);
  CHECK(pid > 0 || errno == ENOSYS);
  if (pid > 0) await(fd, 9);
  return guest_ok();
}
