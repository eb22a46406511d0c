// Memory that only its owner reads: there is such memory, or it is refused as where the kernel has none (ENOSYS), and the
// program takes what there is.
#include "../guest.h"

int main(void) {
  int fd = syscall(SYS_memfd_secret, 0);
  CHECK(fd >= 0 || errno == ENOSYS);
  if (fd < 0) fd = memfd_create("not secret", MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
  char *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  // It is locked, and there is a limit to that.
  if (m == MAP_FAILED) CHECK(errno == EAGAIN);
  else CHECK(strcmp(strcpy(m, "a key"), "a key") == 0 && munmap(m, PAGE) == 0);
  return guest_ok();
}
