// A file is mapped shared by one process while another changes it by write, pwrite, ftruncate and copy_file_range.
#include "../guest.h"

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600), to[2], back[2];
  char c;
  CHECK(ftruncate(fd, 4 * PAGE) == 0 && pipe(to) == 0 && pipe(back) == 0);
  volatile char *m = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED);
  pid_t p = fork();
  if (p == 0) {
    CHECK(munmap((void *)m, 4 * PAGE) == 0);
    int mine = open("f", O_RDWR), other = open("g", O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 30; i++) {
      char byte = (char)('a' + i % 26);
      CHECK(read(to[0], &c, 1) == 1);
      if (i % 3 == 0) CHECK(lseek(mine, i * 100, SEEK_SET) == i * 100 && write(mine, &byte, 1) == 1);
      if (i % 3 == 1) CHECK(pwrite(mine, &byte, 1, i * 100) == 1);
      if (i % 3 == 2) {
        loff_t from = 0, at = i * 100;
        CHECK(pwrite(other, &byte, 1, 0) == 1);
        // Programs fall back where copying in the kernel is refused (another filesystem, a recorder).
        if (copy_file_range(other, &from, mine, &at, 1, 0) != 1) {
          CHECK(errno == EINVAL || errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS);
          CHECK(pwrite(mine, &byte, 1, i * 100) == 1);
        }
      }
      CHECK(write(back[1], "d", 1) == 1);
    }
    CHECK(read(to[0], &c, 1) == 1 && ftruncate(mine, 100) == 0 && ftruncate(mine, 4 * PAGE) == 0);
    CHECK(write(back[1], "t", 1) == 1);
    _exit(0);
  }
  for (int i = 0; i < 30; i++) {
    CHECK(m[i * 100] == 0);
    CHECK(write(to[1], "g", 1) == 1 && read(back[0], &c, 1) == 1);
    CHECK(m[i * 100] == (char)('a' + i % 26));
  }
  CHECK(write(to[1], "g", 1) == 1 && read(back[0], &c, 1) == 1);
  CHECK(m[0] == 'a' && m[100] == 0 && m[2900] == 0);
  check_exited(p, 0);
  printf("%p\n", (void *)m);
  return guest_ok();
}
