// readv, preadv and preadv2: vectors that are empty, small, many, bad, or overwritten by what is read.
#include "rounds.h"
#include <sys/uio.h>

static char *end;
static volatile int minus = -1, beyond = 1025;

static void check(int round) {
  char a[8], b[8], c[64];
  int p[2], f = open("file", O_RDONLY);
  CHECK(f >= 0 && pipe(p) == 0);
  memset(a, '-', 8), memset(b, '-', 8), memset(c, '-', 64);
  struct iovec v[4] = {{a, 3}, {NULL, 0}, {b, 4}, {c, 64}};
  CHECK(write(p[1], "abcdefghij", 10) == 10);
  CHECK(readv(p[0], v, 4) == 10 && !memcmp(a, "abc--", 5) && !memcmp(b, "defg--", 6) && !memcmp(c, "hij---", 6));
  // A short result leaves the rest alone.
  CHECK(write(p[1], "12", 2) == 2 && readv(p[0], v, 4) == 2 && !memcmp(a, "12c-", 4) && !memcmp(b, "defg", 4));
  // The same memory twice: what comes later wins.
  struct iovec twice[2] = {{a, 4}, {a + 2, 4}};
  CHECK(write(p[1], "ABCDEFGH", 8) == 8 && readv(p[0], twice, 2) == 8 && !memcmp(a, "ABEFGH", 6));
  // Over the array of vectors itself: the kernel has read it before.
  struct iovec self[3] = {{&self[1], 16}, {b, 4}, {c, 4}};
  CHECK(write(p[1], "................wxyzWXYZ", 24) == 24 && readv(p[0], self, 3) == 24);
  CHECK(!memcmp(&self[1], "................", 16) && !memcmp(b, "wxyz", 4) && !memcmp(c, "WXYZ", 4));
  // In the file, at places.
  CHECK(preadv(f, v, 4, 100) == 71 && a[0] == 100 && b[0] == 103 && c[63] == (char)170);
  CHECK(preadv2(f, v, 4, 200, 0) == 56 && a[0] == (char)200 && c[48] == (char)255);
  CHECK(preadv2(f, v, 1, -1, 0) == 3 && a[2] == 2 && lseek(f, 0, SEEK_CUR) == 3);
  CHECK(preadv(f, v, 4, 256) == 0 && readv(f, v + 1, 1) == 0 && readv(f, v, 0) == 0);
  // Where the memory ends, so does the result.
  struct iovec bad[2] = {{a, 4}, {end - 2, 8}};
  CHECK(preadv(f, bad, 2, 10) == 6 && a[3] == 13 && end[-1] == 15);
  CHECK(pread(f, end - 5, 100, 20) == 5 && end[-5] == 20 && end[-1] == 24);
  CHECK(pread(f, end - 5, 5, 30) == 5 && end[-1] == 34);
  CHECK_ERRNO(readv(f, &(struct iovec){end, 8}, 1), EFAULT);
  CHECK_ERRNO(readv(f, (void *)(end - 8), 1), EFAULT);
  CHECK(lseek(f, 0, SEEK_CUR) == 3);
  CHECK_ERRNO(readv(f, v, minus), EINVAL);
  CHECK_ERRNO(readv(f, v, beyond), EINVAL);
  CHECK_ERRNO(readv(f, &(struct iovec){a, (size_t)-1}, 1), EINVAL);
  CHECK_ERRNO(readv(-1, v, 1), EBADF);
  CHECK_ERRNO(preadv(p[0], v, 1, 0), ESPIPE);
  // More of them than a hook takes.
  static struct iovec many[300];
  static char bytes[300];
  for (int i = 0; i < 300; i++) many[i] = (struct iovec){&bytes[299 - i], 1};
  CHECK(preadv(f, many, 100, 0) == 100 && bytes[299] == 0 && bytes[200] == 99);
  CHECK(preadv(f, many, 300, 0) == 256 && bytes[44] == (char)255);
  CHECK(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
  CHECK_ERRNO(readv(p[0], v, 4), EAGAIN);
  CHECK(close(p[1]) == 0 && readv(p[0], v, 4) == 0 && close(p[0]) == 0 && close(f) == 0);
  printf("round %d: %d\n", round, getpid());
}

int main(void) {
  char data[256];
  for (int i = 0; i < 256; i++) data[i] = (char)i;
  make_file("file", data, sizeof data);
  end = edge();
  rounds(check);
  return guest_ok();
}
