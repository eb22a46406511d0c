// memfd_create: writing, mapping twice, sealing.
#include "../guest.h"

int main(void) {
  int fd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0);
  CHECK(write(fd, "before", 6) == 6);
  CHECK(ftruncate(fd, 2 * PAGE) == 0);
  char *a = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char *b = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
  char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  CHECK(a != MAP_FAILED && b != MAP_FAILED && p != MAP_FAILED);
  CHECK(strcmp(b, "before") == 0 && strcmp(p, "before") == 0);
  p[0] = 'P';
  a[0] = 'A';
  CHECK(b[0] == 'A' && p[0] == 'P');
  CHECK(pwrite(fd, "pwrite", 6, PAGE) == 6 && strcmp(b + PAGE, "pwrite") == 0);
  CHECK_ERRNO(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  CHECK_ERRNO(ftruncate(fd, PAGE), EPERM);
  CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
  CHECK(munmap(a, 2 * PAGE) == 0 && b[0] == 'A');
  struct stat st;
  CHECK(fstat(fd, &st) == 0 && st.st_size == 2 * PAGE);
  printf("%p %p %p inode %lu\n", a, b, p, st.st_ino);
  return guest_ok();
}
