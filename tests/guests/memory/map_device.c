// Disks and other devices can be mapped, and their memory changes by itself: they are mapped, or refused with ENODEV as what
// cannot be mapped, and the program reads instead. /dev/zero is memory, by whatever name.
#include "../guest.h"
#include <sys/sysmacros.h>

static void may_be_mapped(const char *name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return;
  void *m = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
  if (m == MAP_FAILED) CHECK(errno == ENODEV || errno == EPERM || errno == EACCES);
  else CHECK(munmap(m, PAGE) == 0);
  m = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
  if (m == MAP_FAILED) CHECK(errno == ENODEV || errno == EPERM || errno == EACCES);
  else CHECK(munmap(m, PAGE) == 0);
  CHECK(close(fd) == 0);
}

static void is_memory(const char *name, int flags) {
  int fd = open(name, O_RDWR);
  if (fd < 0) return;
  char *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
  CHECK(m != MAP_FAILED && m[17] == 0);
  m[17] = 1;
  CHECK(m[17] == 1 && munmap(m, PAGE) == 0 && close(fd) == 0);
}

int main(void) {
  const char *devices[] = {"/dev/loop0", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/zram0", "/dev/mem", "/dev/dri/card0", "/dev/fb0"};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) may_be_mapped(devices[i]);
  int fd = open("/dev/null", O_RDWR);
  CHECK(fd >= 0);
  CHECK_ERRNO((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0), ENODEV);
  CHECK_ERRNO((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 1000, 0), EBADF);
  is_memory("/dev/zero", MAP_PRIVATE);
  is_memory("/dev/zero", MAP_SHARED);
  // Where the right to make devices is, and a file system that has them.
  if (mknod("nothing", S_IFCHR | 0600, makedev(1, 5)) == 0) is_memory("nothing", MAP_PRIVATE);
  return guest_ok();
}
