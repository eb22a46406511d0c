// truncate, ftruncate, fallocate and hole punching change what is read, and nothing else.
#include "../guest.h"

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  char page[PAGE];
  memset(page, 'p', PAGE);
  for (int i = 0; i < 4; i++) CHECK(write(fd, page, PAGE) == PAGE);
  CHECK(truncate("f", 100) == 0 && lseek(fd, 0, SEEK_END) == 100);
  CHECK(ftruncate(fd, 2 * PAGE) == 0);
  CHECK(pread(fd, page, PAGE, 0) == PAGE && page[99] == 'p' && page[100] == 0);
  CHECK_ERRNO(ftruncate(fd, -1), EINVAL);
  int r = posix_fallocate(fd, 0, 4 * PAGE);
  CHECK(r == 0 || r == EOPNOTSUPP);
  if (r == 0) CHECK(lseek(fd, 0, SEEK_END) == 4 * PAGE);
  r = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE);
  if (r == 0) CHECK(pread(fd, page, PAGE, 0) == PAGE && page[0] == 0);
  // A private mapping sees the new end: a page past it faults, which read() tells as EFAULT.
  CHECK(ftruncate(fd, PAGE) == 0);
  char *map = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(map != MAP_FAILED);
  int null = open("/dev/null", O_WRONLY), p[2];
  CHECK(pipe(p) == 0 && null >= 0);
  CHECK_ERRNO(write(p[1], map + PAGE, 10), EFAULT);
  CHECK(write(p[1], map, 10) == 10);
  printf("mapped at %p, punch %d\n", map, r);
  return guest_ok();
}
