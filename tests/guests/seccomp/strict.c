// Strict mode: read, write and exit, and the end for who does anything else; two ways to enter it.
#include "filter.h"

static void child(int by_prctl, int then) {
  int fds[2];
  char byte = 0;
  CHECK(pipe(fds) == 0 && write(fds[1], "ab", 2) == 2);
  long r = by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) : syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0);
  if (r == 0 && read(fds[0], &byte, 1) == 1 && byte == 'a' && write(fds[1], "c", 1) == 1) {
    if (then == 0) syscall(SYS_exit, 12);
    if (then == 1) syscall(SYS_exit_group, 12);
    if (then == 2) getppid();
    if (then == 3) prctl(PR_GET_SECCOMP);
  }
  syscall(SYS_exit, 13);
}

int main(void) {
  CHECK_ERRNO(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0), EINVAL);
  for (int i = 0; i < 8; i++) {
    pid_t p = fork();
    if (p == 0) child(i & 1, i / 2);
    if (i / 2 == 0) check_exited(p, 12);
    else check_killed(p, SIGKILL);
    printf("%d: %d\n", i, p);
  }
  return guest_ok();
}
