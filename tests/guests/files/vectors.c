// readv, writev, preadv, pwritev, preadv2: scattered buffers are filled in order, also partly.
#include "../guest.h"
#include <sys/uio.h>

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0);
  struct iovec out[3] = {{"hello ", 6}, {"", 0}, {"scattered world", 15}};
  CHECK(writev(fd, out, 3) == 21);
  char a[4] = "", b[1] = "", c[32] = "";
  struct iovec in[4] = {{a, 4}, {b, 1}, {NULL, 0}, {c, 32}};
  CHECK(preadv(fd, in, 4, 0) == 21);
  CHECK(memcmp(a, "hell", 4) == 0 && b[0] == 'o' && memcmp(c, " scattered world", 16) == 0 && c[16] == 0);
  CHECK(preadv(fd, in, 2, 6) == 5);
  CHECK(memcmp(a, "scat", 4) == 0 && b[0] == 't');
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  CHECK(readv(fd, in, 1) == 4 && memcmp(a, "hell", 4) == 0);
  CHECK(pwritev(fd, out, 1, 100) == 6);
  CHECK(preadv2(fd, in, 2, 100, 0) == 5);
  CHECK(preadv2(fd, in, 2, -1, 0) == 5 && a[0] == 'o');
  CHECK_ERRNO(syscall(SYS_readv, fd, in, -1), EINVAL);
  CHECK_ERRNO(syscall(SYS_readv, fd, 16, 2), EFAULT);
  // 1024 buffers of different lengths.
  static char big[1024][16];
  struct iovec many[1024];
  for (int i = 0; i < 1024; i++) {
    memset(big[i], 'a' + i % 26, 16);
    many[i] = (struct iovec){big[i], (size_t)i % 17};
  }
  ssize_t n = pwritev(fd, many, 1024, 0);
  CHECK(n > 8000);
  memset(big, 0, sizeof big);
  CHECK(preadv(fd, many, 1024, 0) == n);
  for (int i = 0; i < 1024; i++)
    for (int j = 0; j < 16; j++) CHECK(big[i][j] == (j < i % 17 ? 'a' + i % 26 : 0));
  printf("%zd bytes in 1024 buffers\n", n);
  return guest_ok();
}
