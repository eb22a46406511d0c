// umask, chdir, fchdir, getcwd, openat with a folder, /proc/self/cwd.
#include "../guest.h"

int main(void) {
  char top[PATH_MAX], now[PATH_MAX];
  CHECK(getcwd(top, sizeof top));
  mode_t old = umask(027);
  make_file("f", "", 0);
  struct stat st;
  CHECK(stat("f", &st) == 0 && (st.st_mode & 0777) == 0640);
  CHECK(umask(077) == 027);
  CHECK(mkdir("d", 0777) == 0 && stat("d", &st) == 0 && (st.st_mode & 0777) == 0700);
  int up = open(".", O_PATH | O_DIRECTORY);
  CHECK(chdir("d") == 0 && getcwd(now, sizeof now));
  CHECK(strncmp(now, top, strlen(top)) == 0 && strcmp(now + strlen(top), "/d") == 0);
  char link[PATH_MAX] = "";
  CHECK(readlink("/proc/self/cwd", link, sizeof link) == (ssize_t)strlen(now) && strcmp(link, now) == 0);
  CHECK_ERRNO(open("f", O_RDONLY), ENOENT);
  CHECK(open("../f", O_RDONLY) >= 0);
  CHECK(openat(up, "f", O_RDONLY) >= 0);
  CHECK(fchdir(up) == 0 && access("f", F_OK) == 0);
  CHECK(rmdir("d") == 0);
  CHECK_ERRNO(syscall(SYS_getcwd, now, 2), ERANGE);
  CHECK_ERRNO(chdir("d"), ENOENT);
  CHECK_ERRNO(chdir("f"), ENOTDIR);
  printf("umask was %o, in %s\n", old, top);
  return guest_ok();
}
