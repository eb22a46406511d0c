// needs: root
// unstopped: mmap
// A file of the system that is mapped privately, and then changed: what is mapped afterwards is what it is now, though hooks have
// mapped what it was.
#include "../guest.h"
#include <sys/stat.h>

static void put(const char *name, int round, size_t pages) {
  char text[64];
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  CHECK(fd >= 0);
  for (size_t i = 0; i < pages * PAGE / sizeof text; i++) {
    snprintf(text, sizeof text, "round %d, line %zu of a file of the system that changes", round, i);
    CHECK(write(fd, text, sizeof text) == sizeof text);
  }
  // As if that had been long ago: what was written a moment ago is not taken to be known.
  struct timespec times[2] = {{1000000000 + round, 5}, {1000000000 + round, 5}};
  CHECK(futimens(fd, times) == 0 && close(fd) == 0);
}

int main(void) {
  char name[64];
  snprintf(name, sizeof name, "/usr/local/bis-guest-%d", getpid());
  for (int round = 0; round < 6; round++) {
    size_t pages = 4 + round % 2;
    put(name, round, pages);
    for (int i = 0; i < 60; i++) {
      int fd = open(name, O_RDONLY | O_CLOEXEC);
      char *at = mmap(NULL, pages * PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
      CHECK(fd >= 0 && at != MAP_FAILED);
      char expected[64];
      snprintf(expected, sizeof expected, "round %d, line %d of", round, 3 * 64);
      CHECK(memcmp(at + 3 * PAGE, expected, strlen(expected)) == 0);
      CHECK(munmap(at, pages * PAGE) == 0 && close(fd) == 0);
    }
  }
  CHECK(unlink(name) == 0);
  return guest_ok();
}
