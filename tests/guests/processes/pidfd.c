// pidfd_open, pidfd_send_signal, waitid(P_PIDFD), poll on a pidfd, pidfd_getfd.
#include "../guest.h"
#include <poll.h>

int main(void) {
  int hold[2], ready[2];
  char c;
  CHECK(pipe(hold) == 0 && pipe(ready) == 0);
  pid_t p = fork();
  if (p == 0) {
    CHECK(dup2(ready[1], 99) == 99 && write(99, "r", 1) == 1);
    (void)!read(hold[0], &c, 1);
    for (;;) pause();
  }
  CHECK(read(ready[0], &c, 1) == 1);
  int fd = (int)syscall(SYS_pidfd_open, p, 0);
  CHECK(fd >= 0);
  struct pollfd pfd = {fd, POLLIN, 0};
  CHECK(poll(&pfd, 1, 0) == 0);
  int stolen = (int)syscall(SYS_pidfd_getfd, fd, 99, 0);
  if (stolen >= 0) {
    CHECK(write(stolen, "s", 1) == 1 && read(ready[0], &c, 1) == 1 && c == 's');
  } else {
    CHECK(errno == EPERM);
  }
  CHECK(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0);
  CHECK(poll(&pfd, 1, 5000) == 1 && (pfd.revents & POLLIN));
  siginfo_t info;
  CHECK(waitid(P_PIDFD, fd, &info, WEXITED) == 0);
  CHECK(info.si_pid == p && info.si_code == CLD_KILLED && info.si_status == SIGTERM);
  CHECK_ERRNO(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0), ESRCH);
  CHECK_ERRNO(syscall(SYS_pidfd_open, -1, 0), EINVAL);
  printf("pid %d had pidfd %d\n", p, fd);
  return guest_ok();
}
