// Extended attributes: set, get, list, remove, and too small buffers. Skips itself where the filesystem has none.
#include "../guest.h"
#include <sys/xattr.h>

int main(void) {
  make_file("f", "", 0);
  char buf[256];
  if (setxattr("f", "user.colour", "blue", 4, 0) == -1) {
    CHECK(errno == ENOTSUP || errno == EPERM);
    printf("no user attributes here: %s\n", strerror(errno));
    CHECK(getxattr("f", "user.colour", buf, sizeof buf) == -1);
    return guest_ok();
  }
  CHECK(getxattr("f", "user.colour", NULL, 0) == 4);
  CHECK(getxattr("f", "user.colour", buf, sizeof buf) == 4 && memcmp(buf, "blue", 4) == 0);
  CHECK_ERRNO(getxattr("f", "user.colour", buf, 2), ERANGE);
  CHECK_ERRNO(setxattr("f", "user.colour", "red", 3, XATTR_CREATE), EEXIST);
  int fd = open("f", O_RDWR);
  CHECK(fsetxattr(fd, "user.shape", "round", 5, XATTR_CREATE) == 0);
  ssize_t n = listxattr("f", buf, sizeof buf);
  CHECK(n >= 23);
  CHECK(memmem(buf, n, "user.colour", 12) && memmem(buf, n, "user.shape", 11));
  CHECK(fremovexattr(fd, "user.colour") == 0);
  CHECK_ERRNO(fgetxattr(fd, "user.colour", buf, sizeof buf), ENODATA);
  CHECK(flistxattr(fd, NULL, 0) < n);
  printf("%zd bytes of names\n", n);
  return guest_ok();
}
