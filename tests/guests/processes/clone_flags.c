// clone and clone3 with odd flags: CLONE_FILES and CLONE_FS without CLONE_VM, CLONE_VM without threads, CLONE_PARENT,
// another exit signal, pidfd.
#include "../guest.h"
#include <linux/sched.h>

static volatile int shared;
static int opened;

static int child(void *arg) {
  shared = 5;
  opened = dup2(0, 90);
  CHECK(chdir("/") == 0);
  return (int)(long)arg;
}

int main(void) {
  char *stack = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), cwd[PATH_MAX];
  int status;
  char *top = stack + 32 * PAGE;
  // Shares descriptors and the current folder, not memory.
  pid_t p = clone(child, top, CLONE_FILES | CLONE_FS | SIGCHLD, (void *)11);
  check_exited(p, 11);
  CHECK(shared == 0 && fcntl(90, F_GETFD) == 0 && getcwd(cwd, sizeof cwd) && strcmp(cwd, "/") == 0);
  close(90);
  // Shares memory, not descriptors: a process of its own in our address space.
  p = clone(child, top, CLONE_VM | SIGCHLD, (void *)12);
  check_exited(p, 12);
  CHECK(shared == 5 && opened == 90);
  CHECK_ERRNO(fcntl(90, F_GETFD), EBADF);
  // No exit signal: found only with __WALL or __WCLONE.
  shared = 0;
  p = clone(child, top, CLONE_VM | CLONE_VFORK, (void *)13);
  CHECK(p > 0 && shared == 5);
  CHECK_ERRNO(waitpid(p, &status, 0), ECHILD);
  CHECK(waitpid(p, &status, __WALL) == p && WEXITSTATUS(status) == 13);
  struct clone_args args = {.exit_signal = SIGCHLD, .flags = CLONE_PIDFD};
  int pidfd = -1;
  args.pidfd = (uint64_t)(uintptr_t)&pidfd;
  long r = syscall(SYS_clone3, &args, sizeof args);
  if (r == 0) _exit(14);
  if (r == -1) {
    CHECK(errno == ENOSYS);
  } else {
    CHECK(pidfd >= 0);
    check_exited((pid_t)r, 14);
  }
  CHECK_ERRNO(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0), EINVAL);
  printf("last two: %d %ld\n", p, r);
  return guest_ok();
}
