// pread, pwrite and lseek: offsets are independent, holes read as zeros, SEEK_DATA and SEEK_HOLE agree.
#include "../guest.h"

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0);
  CHECK(pwrite(fd, "end", 3, 1 << 20) == 3);
  CHECK(lseek(fd, 0, SEEK_CUR) == 0);
  CHECK(pwrite(fd, "begin", 5, 0) == 5);
  char buf[8];
  memset(buf, 'x', sizeof buf);
  CHECK(pread(fd, buf, 8, 100000) == 8);
  for (int i = 0; i < 8; i++) CHECK(buf[i] == 0);
  CHECK(pread(fd, buf, 8, 1 << 20) == 3);
  CHECK(memcmp(buf, "end", 3) == 0 && buf[3] == 0);
  CHECK(pread(fd, buf, 8, 2 << 20) == 0);
  CHECK_ERRNO(pread(fd, buf, 8, -1), EINVAL);
  CHECK(lseek(fd, -3, SEEK_END) == 1 << 20);
  off_t data = lseek(fd, 0, SEEK_DATA), hole = lseek(fd, 0, SEEK_HOLE);
  CHECK(data == 0 && hole > 0 && hole <= (1 << 20) + 3);
  CHECK_ERRNO(lseek(fd, 2 << 20, SEEK_DATA), ENXIO);
  printf("first hole at %ld\n", (long)hole);
  return guest_ok();
}
