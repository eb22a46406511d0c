// A shared mapping of a file in one process: stores reach the file, writes reach the mapping, msync.
#include "../guest.h"

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(ftruncate(fd, 3 * PAGE) == 0);
  char *m = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED);
  strcpy(m + PAGE - 3, "across a page");
  char buf[32] = "";
  CHECK(pread(fd, buf, 13, PAGE - 3) == 13 && strcmp(buf, "across a page") == 0);
  CHECK(pwrite(fd, "written", 7, 2 * PAGE + 10) == 7);
  CHECK(memcmp(m + 2 * PAGE + 10, "written", 7) == 0);
  CHECK(msync(m, 3 * PAGE, MS_SYNC) == 0);
  char *view = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 2 * PAGE);
  CHECK(view != MAP_FAILED && memcmp(view + 10, "written", 7) == 0);
  m[2 * PAGE + 10] = 'W';
  CHECK(view[10] == 'W');
  CHECK(read(fd, m + 100, 5) == 5);  // from the file's start into its own mapping
  CHECK(m[100] == 0 && lseek(fd, 0, SEEK_CUR) == 5);
  CHECK(munmap(m, 3 * PAGE) == 0);
  CHECK(pread(fd, buf, 1, 2 * PAGE + 10) == 1 && buf[0] == 'W');
  printf("%p %p\n", m, view);
  return guest_ok();
}
