// Calls that do not exist say ENOSYS; bad pointers say EFAULT; libc's fallbacks work where new calls are refused.
#include "../guest.h"

int main(void) {
  CHECK_ERRNO(syscall(9999), ENOSYS);
  CHECK_ERRNO(syscall(-1l), ENOSYS);
  CHECK_ERRNO(syscall(SYS_pipe, 8), EFAULT);
  CHECK_ERRNO(syscall(SYS_clock_gettime, 0, 8), EFAULT);
  CHECK_ERRNO(syscall(SYS_uname, 8), EFAULT);
  CHECK_ERRNO(syscall(SYS_rt_sigaction, SIGUSR1, 8, 0, 8), EFAULT);
  CHECK_ERRNO(syscall(SYS_rt_sigprocmask, 0, 0, 0, 4), EINVAL);
  CHECK_ERRNO(write(99, "x", 1), EBADF);
  long r = syscall(334, 0, 0, 0, 0);  // rseq, with nonsense
  CHECK(r == -1);
  int rseq = errno;
  r = syscall(425, 0, 0);  // io_uring_setup
  CHECK(r == -1);
  printf("rseq %s, io_uring %s\n", strerror(rseq), strerror(errno));
  return guest_ok();
}
