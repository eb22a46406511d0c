// dup, dup2, dup3, F_DUPFD, close_range, O_CLOEXEC: numbers, shared offsets and flags.
#include "../guest.h"
#include <sys/resource.h>

int main(void) {
  make_file("f", "abcdef", 6);
  int a = open("f", O_RDWR), b = dup(a), c;
  char x;
  CHECK(b > a && read(a, &x, 1) == 1 && x == 'a' && read(b, &x, 1) == 1 && x == 'b');
  CHECK((c = fcntl(a, F_DUPFD, 50)) == 50);
  CHECK(fcntl(a, F_DUPFD_CLOEXEC, 50) == 51 && fcntl(51, F_GETFD) == FD_CLOEXEC && fcntl(50, F_GETFD) == 0);
  CHECK(dup2(a, 60) == 60 && dup2(a, a) == a);
  CHECK_ERRNO(dup3(a, a, 0), EINVAL);
  CHECK(dup3(a, 61, O_CLOEXEC) == 61 && fcntl(61, F_GETFD) == FD_CLOEXEC);
  CHECK_ERRNO(dup2(99, 62), EBADF);
  CHECK(fcntl(a, F_SETFL, O_APPEND | O_NONBLOCK) == 0);
  CHECK((fcntl(60, F_GETFL) & (O_APPEND | O_NONBLOCK)) == (O_APPEND | O_NONBLOCK));
  if (syscall(SYS_close_range, 50, 60, 0) == 0) {
    CHECK_ERRNO(fcntl(50, F_GETFD), EBADF);
    CHECK_ERRNO(fcntl(60, F_GETFD), EBADF);
    CHECK(fcntl(61, F_GETFD) == FD_CLOEXEC);
  }
  struct rlimit old, few = {20, 20};
  CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
  few.rlim_max = old.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  int n = 0;
  while (open("/dev/null", O_RDONLY) >= 0) n++;
  CHECK(errno == EMFILE && n < 20 && n > 5);
  printf("%d more descriptors, limits %lu %lu\n", n, old.rlim_cur, old.rlim_max);
  return guest_ok();
}
