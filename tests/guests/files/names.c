// rename, link, unlink, symlink, mkdir, rmdir, renameat2 and their errors.
#include "../guest.h"

static ino_t inode(const char *path) {
  struct stat st;
  CHECK(stat(path, &st) == 0);
  return st.st_ino;
}

int main(void) {
  make_file("a", "A", 1);
  make_file("b", "B", 1);
  ino_t a = inode("a"), b = inode("b");
  CHECK(link("a", "a2") == 0 && inode("a2") == a);
  CHECK_ERRNO(link("a", "a2"), EEXIST);
  struct stat st;
  CHECK(stat("a", &st) == 0 && st.st_nlink == 2);
  CHECK(rename("a", "b") == 0 && inode("b") == a);
  CHECK_ERRNO(rename("a", "c"), ENOENT);
  make_file("a", "A", 1);
  ino_t a3 = inode("a");
  CHECK(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) == 0);
  CHECK(inode("a") == a && inode("b") == a3);
  CHECK_ERRNO(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE), EEXIST);
  CHECK(mkdir("d", 0755) == 0);
  CHECK_ERRNO(mkdir("d", 0755), EEXIST);
  CHECK(rename("a", "d/a") == 0);
  CHECK_ERRNO(rmdir("d"), ENOTEMPTY);
  CHECK_ERRNO(unlink("d"), EISDIR);
  int dir = open("d", O_DIRECTORY | O_RDONLY);
  CHECK(unlinkat(dir, "a", 0) == 0 && unlinkat(AT_FDCWD, "d", AT_REMOVEDIR) == 0);
  CHECK_ERRNO(openat(dir, "new", O_CREAT | O_WRONLY, 0600), ENOENT);
  // A file that is open lives on without a name.
  int fd = open("b", O_RDWR);
  CHECK(unlink("b") == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0);
  CHECK(write(fd, "still", 5) == 5);
  CHECK(symlink("loop", "loop") == 0);
  CHECK_ERRNO(open("loop", O_RDONLY), ELOOP);
  char *real = realpath("a2", NULL);
  CHECK(real);
  printf("inodes %lu %lu %lu, %s\n", a, b, a3, real);
  return guest_ok();
}
