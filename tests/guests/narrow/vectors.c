// cflags: -m32
// needs: /usr/lib32/crt1.o
// Reads and writes through vectors, at the position and elsewhere.
#include "../guest.h"
#include <sys/uio.h>

int main(void) {
  int fd = open("file", O_RDWR | O_CREAT, 0600);
  struct iovec out[] = {{"one", 3}, {"", 0}, {"two", 3}, {"three", 5}};
  CHECK(fd >= 0 && writev(fd, out, 4) == 11 && lseek(fd, 0, SEEK_SET) == 0);
  char a[4] = "....", b[100];
  struct iovec in[] = {{a, 4}, {b, 100}};
  CHECK(readv(fd, in, 2) == 11 && memcmp(a, "onet", 4) == 0 && memcmp(b, "wothree", 7) == 0);
  CHECK(preadv(fd, in, 1, 3) == 4 && memcmp(a, "twot", 4) == 0);
  CHECK(pwritev(fd, out, 1, 6) == 3 && preadv(fd, in, 2, 0) == 11 && memcmp(b + 2, "onee", 4) == 0);
  CHECK(lseek(fd, 0, SEEK_CUR) == 11);
  CHECK(preadv2(fd, in, 1, -1, 0) == 0 && pwritev2(fd, out, 1, -1, 0) == 3 && lseek(fd, 0, SEEK_CUR) == 14);
  in[1].iov_len = 0x80000000u;
  CHECK_ERRNO(readv(fd, in, 2), EINVAL);
  // What the compiler would warn of.
  volatile int negative = -1;
  struct iovec *volatile nowhere = (struct iovec *)16;
  CHECK_ERRNO(readv(fd, in, negative), EINVAL);
  CHECK_ERRNO(readv(fd, nowhere, 1), EFAULT);
  static char page[PAGE];
  int ends[2];
  CHECK(pipe(ends) == 0);
  memset(page, 'v', PAGE);
  CHECK(vmsplice(ends[1], &(struct iovec){page, 100}, 1, 0) == 100);
  CHECK(read(ends[0], b, 100) == 100 && is_all(b, 100, 'v'));
  // The limit of a vector.
  static struct iovec many[1025];
  for (int i = 0; i < 1025; i++) many[i] = (struct iovec){"m", 1};
  CHECK(pwritev(fd, many, 1024, 0) == 1024);
  CHECK_ERRNO(pwritev(fd, many, 1025, 0), EINVAL);
  char digested[1024];
  CHECK(pread(fd, digested, 1024, 0) == 1024);
  printf("digest %016llx\n", (unsigned long long)digest(digested, 1024));
  return guest_ok();
}
