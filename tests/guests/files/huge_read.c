// One write and one read of 24 MB, into memory that has never been touched, and past its end.
#include "../guest.h"

int main(void) {
  size_t len = 24 << 20;
  unsigned char *src = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char *dst = mmap(NULL, len + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(src != MAP_FAILED && dst != MAP_FAILED);
  uint32_t x = 1;
  for (size_t i = 0; i < len; i += 4) {
    x = x * 1664525 + 1013904223;
    memcpy(src + i, &x, 4);
  }
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(write(fd, src, len) == (ssize_t)len);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  CHECK(read(fd, dst, len) == (ssize_t)len);
  CHECK(memcmp(src, dst, len) == 0);
  // A read that runs into unmapped memory gives what fits, or EFAULT; never more.
  CHECK(munmap(dst + len, PAGE) == 0);
  memset(dst + len - PAGE, 0, PAGE);
  ssize_t n = pread(fd, dst + len - 100, 1000, 0);
  CHECK(n == 100 || (n == -1 && errno == EFAULT));
  for (int i = 100; i < PAGE; i++) CHECK(dst[len - PAGE + PAGE - 1 - i] == 0);
  printf("partial read: %zd, digest %lx\n", n, digest(dst, len));
  return guest_ok();
}
