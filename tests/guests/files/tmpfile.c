// O_TMPFILE, linkat of an unnamed file, mkstemp, O_EXCL and O_NOFOLLOW.
#include "../guest.h"

int main(void) {
  int fd = open(".", O_TMPFILE | O_RDWR, 0600);
  if (fd >= 0) {
    CHECK(write(fd, "later named", 11) == 11);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    struct stat st;
    CHECK(stat("named", &st) == 0 && st.st_size == 11);
  } else {
    CHECK(errno == EOPNOTSUPP || errno == EISDIR);
  }
  char name[] = "tmp-XXXXXX";
  int t = mkstemp(name);
  CHECK(t >= 0 && strcmp(name, "tmp-XXXXXX") != 0);
  CHECK_ERRNO(open(name, O_CREAT | O_EXCL | O_WRONLY, 0600), EEXIST);
  CHECK(symlink(name, "link") == 0);
  CHECK_ERRNO(open("link", O_RDONLY | O_NOFOLLOW), ELOOP);
  int path = open("link", O_PATH | O_NOFOLLOW);
  CHECK(path >= 0);
  CHECK_ERRNO(read(path, name, 1), EBADF);
  char dir[] = "dir-XXXXXX";
  CHECK(mkdtemp(dir));
  printf("%s %s\n", name, dir);
  return guest_ok();
}
