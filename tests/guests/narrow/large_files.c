// cflags: -m32 -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64
// needs: /usr/lib32/crt1.o
// A program with 64-bit offsets and times: what lies beyond 4 GiB is found there.
#include "../guest.h"
#include <sys/sendfile.h>
#include <sys/statvfs.h>

#define FAR 0x1400000000ll

int main(void) {
  CHECK(sizeof(off_t) == 8 && sizeof(time_t) == 8);
  int fd = open("large", O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && ftruncate(fd, FAR + 100) == 0);
  struct stat st;
  CHECK(fstat(fd, &st) == 0 && st.st_size == FAR + 100);
  CHECK(stat("large", &st) == 0 && st.st_size == FAR + 100 && st.st_ino != 0);
  CHECK(pwrite(fd, "far away", 8, FAR) == 8);
  char got[16];
  CHECK(pread(fd, got, 8, FAR) == 8 && memcmp(got, "far away", 8) == 0);
  CHECK(pread(fd, got, 8, FAR & 0xffffffff) == 8 && is_all(got, 8, 0));
  CHECK(lseek(fd, FAR + 4, SEEK_SET) == FAR + 4 && lseek(fd, 1, SEEK_CUR) == FAR + 5);
  CHECK(read(fd, got, 3) == 3 && memcmp(got, "way", 3) == 0);
  CHECK(lseek(fd, -100, SEEK_END) == FAR);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FAR, .l_len = FAR};
  CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
  int other = open("large", O_RDWR);
  struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FAR + 7};
  CHECK(fcntl(other, F_GETLK, &asked) == 0);
  CHECK(asked.l_type == F_WRLCK && asked.l_start == FAR && asked.l_len == FAR && asked.l_pid == -1);
  int to = open("copy", O_RDWR | O_CREAT, 0600);
  off_t from = FAR;
  CHECK(sendfile(to, fd, &from, 8) == 8 && from == FAR + 8);
  CHECK(pread(to, got, 8, 0) == 8 && memcmp(got, "far away", 8) == 0);
  // After the year 2038.
  CHECK(utimensat(AT_FDCWD, "copy", (struct timespec[]){{0x100000000ll, 5}, {0x100000001ll, 6}}, 0) == 0);
  CHECK(stat("copy", &st) == 0);
  struct statvfs fs;
  CHECK(statvfs(".", &fs) == 0 && fs.f_bsize > 0);
  CHECK(unlink("large") == 0 && unlink("copy") == 0);
  return guest_ok();
}
