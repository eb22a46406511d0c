// stat, lstat, fstat, fstatat, statx, access, faccessat2: all tell the same about one file.
#include "../guest.h"
#include <sys/sysmacros.h>

int main(void) {
  make_file("f", "12345", 5);
  CHECK(symlink("f", "l") == 0);
  CHECK(chmod("f", 0640) == 0);
  struct stat a, b, c, l;
  int fd = open("f", O_RDONLY);
  CHECK(stat("f", &a) == 0 && stat("l", &b) == 0 && fstat(fd, &c) == 0 && lstat("l", &l) == 0);
  CHECK(a.st_ino == b.st_ino && a.st_ino == c.st_ino && l.st_ino != a.st_ino);
  CHECK(S_ISREG(a.st_mode) && S_ISLNK(l.st_mode) && l.st_size == 1);
  CHECK(a.st_size == 5 && (a.st_mode & 0777) == 0640 && a.st_nlink == 1);
  struct statx x;
  CHECK(statx(AT_FDCWD, "l", 0, STATX_ALL, &x) == 0);
  CHECK(x.stx_ino == a.st_ino && x.stx_size == 5 && x.stx_mtime.tv_sec == a.st_mtim.tv_sec);
  CHECK(statx(AT_FDCWD, "l", AT_SYMLINK_NOFOLLOW, STATX_ALL, &x) == 0 && x.stx_ino == l.st_ino);
  CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &x) == 0 && x.stx_size == 5);
  CHECK(fstatat(AT_FDCWD, "l", &b, AT_SYMLINK_NOFOLLOW) == 0 && b.st_ino == l.st_ino);
  CHECK_ERRNO(stat("absent", &a), ENOENT);
  CHECK_ERRNO(stat("f/x", &a), ENOTDIR);
  CHECK_ERRNO(stat("", &a), ENOENT);
  CHECK_ERRNO(stat((char *)8, &a), EFAULT);
  CHECK(access("f", R_OK | W_OK) == 0);
  CHECK_ERRNO(access("f", X_OK), EACCES);
  CHECK(faccessat(AT_FDCWD, "l", F_OK, AT_EACCESS) == 0);
  char target[8];
  CHECK(readlink("l", target, 8) == 1 && target[0] == 'f');
  CHECK(stat("/dev/null", &b) == 0 && S_ISCHR(b.st_mode) && major(b.st_rdev) == 1 && minor(b.st_rdev) == 3);
  printf("inode %lu, changed at %ld.%09ld, device %lx\n", a.st_ino, a.st_ctim.tv_sec, a.st_ctim.tv_nsec, a.st_dev);
  return guest_ok();
}
