// statfs, fstatfs, statvfs, sync calls, readahead and fadvise.
#include "../guest.h"
#include <sys/statvfs.h>
#include <sys/vfs.h>

int main(void) {
  make_file("f", "data", 4);
  int fd = open("f", O_RDWR);
  struct statfs a, b;
  CHECK(statfs(".", &a) == 0 && fstatfs(fd, &b) == 0 && a.f_type == b.f_type && a.f_bsize > 0);
  struct statvfs v;
  CHECK(statvfs("f", &v) == 0 && v.f_namemax >= 100);
  CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
  CHECK(sync_file_range(fd, 0, 4, SYNC_FILE_RANGE_WRITE) == 0 || errno == ENOSYS || errno == ESPIPE);
  CHECK(posix_fadvise(fd, 0, 4, POSIX_FADV_SEQUENTIAL) == 0);
  readahead(fd, 0, 4);
  CHECK(statfs("/proc", &b) == 0 && b.f_type == 0x9fa0);
  CHECK_ERRNO(statfs("absent", &b), ENOENT);
  printf("type %lx, %lu blocks free of %lu\n", a.f_type, (unsigned long)a.f_bfree, (unsigned long)a.f_blocks);
  return guest_ok();
}
