// utimensat, futimens: set times are read back, UTIME_NOW and UTIME_OMIT do what they say.
#include "../guest.h"

int main(void) {
  make_file("f", "x", 1);
  struct timespec t[2] = {{1000000000, 123456789}, {1234567890, 987654321}};
  CHECK(utimensat(AT_FDCWD, "f", t, 0) == 0);
  struct stat st;
  CHECK(stat("f", &st) == 0);
  CHECK(st.st_atim.tv_sec == 1000000000 && st.st_mtim.tv_sec == 1234567890);
  CHECK(st.st_mtim.tv_nsec == 987654321 || st.st_mtim.tv_nsec == 0);
  struct timespec omit[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  int fd = open("f", O_WRONLY);
  CHECK(futimens(fd, omit) == 0 && fstat(fd, &st) == 0);
  CHECK(st.st_atim.tv_sec == 1000000000 && st.st_mtim.tv_sec > 1600000000);
  struct timespec bad[2] = {{0, 2000000000}, {0, 0}};
  CHECK_ERRNO(utimensat(AT_FDCWD, "f", bad, 0), EINVAL);
  CHECK_ERRNO(utimensat(AT_FDCWD, "absent", t, 0), ENOENT);
  printf("now %ld.%09ld\n", st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
  return guest_ok();
}
