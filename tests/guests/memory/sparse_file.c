// A file that is nearly all hole, mapped: what it costs is what is in it, not how long it is.
#include "../guest.h"

int main(void) {
  const off_t len = 16l << 30, at = 9l << 30;
  int fd = open("sparse", O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && ftruncate(fd, len) == 0 && pwrite(fd, "here", 4, at) == 4);
  char *shared = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(shared != MAP_FAILED);
  CHECK(memcmp(shared + at, "here", 4) == 0 && shared[at - 1] == 0 && shared[len - 1] == 0);
  CHECK(pwrite(fd, "there", 5, len - 5) == 5 && memcmp(shared + len - 5, "there", 5) == 0);
  printf("%.4s %.5s\n", shared + at, shared + len - 5);
  return guest_ok();
}
