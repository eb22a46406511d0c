// Pipes: order, EOF, atomic small writes, capacity, nonblocking, FIONREAD, O_DIRECT packets.
#include "../guest.h"
#include <sys/ioctl.h>

int main(void) {
  int p[2], n;
  char buf[100];
  CHECK(pipe2(p, O_CLOEXEC) == 0 && fcntl(p[0], F_GETFD) == FD_CLOEXEC);
  CHECK(write(p[1], "hello", 5) == 5 && write(p[1], " world", 6) == 6);
  CHECK(ioctl(p[0], FIONREAD, &n) == 0 && n == 11);
  CHECK(read(p[0], buf, 4) == 4 && memcmp(buf, "hell", 4) == 0);
  CHECK(read(p[0], buf, 100) == 7 && memcmp(buf, "o world", 7) == 0);
  CHECK(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
  CHECK_ERRNO(read(p[0], buf, 1), EAGAIN);
  int size = fcntl(p[1], F_GETPIPE_SZ), total = 0;
  CHECK(size >= PAGE && fcntl(p[1], F_SETPIPE_SZ, PAGE) == PAGE);
  CHECK(fcntl(p[1], F_SETFL, O_NONBLOCK) == 0);
  while ((n = (int)write(p[1], buf, 100)) > 0) total += n;
  CHECK(errno == EAGAIN && total == 4000);
  CHECK(close(p[1]) == 0);
  while ((n = (int)read(p[0], buf, 100)) > 0) total -= n;
  CHECK(n == 0 && total == 0);
  if (pipe2(p, O_DIRECT) == 0) {
    CHECK(write(p[1], "ab", 2) == 2 && write(p[1], "cd", 2) == 2);
    CHECK(read(p[0], buf, 100) == 2 && read(p[0], buf, 1) == 1 && buf[0] == 'c');
  }
  CHECK_ERRNO(lseek(p[0], 0, SEEK_SET), ESPIPE);
  printf("default capacity %d\n", size);
  return guest_ok();
}
