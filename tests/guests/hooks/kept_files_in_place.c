// needs: root
// unstopped: mmap
// A file below /var/cache is changed in place, and neither its length nor the time of its change says so: the time of its inode's
// change does. What is mapped afterwards is what it is now, though hooks have mapped what it was.
#include "../guest.h"
#include <sys/stat.h>

static char name[64];

static void put(char letter) {
  char page[PAGE];
  memset(page, letter, sizeof page);
  int fd = open(name, O_WRONLY | O_CREAT, 0644);
  struct timespec times[2] = {{1000000000, 5}, {1000000000, 5}};
  CHECK(fd >= 0 && write(fd, page, sizeof page) == sizeof page && futimens(fd, times) == 0 && close(fd) == 0);
}

static void shows(char letter, int times) {
  for (int i = 0; i < times; i++) {
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    char *at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(fd >= 0 && at != MAP_FAILED && at[0] == letter && at[PAGE - 1] == letter);
    CHECK(munmap(at, PAGE) == 0 && close(fd) == 0);
  }
}

int main(void) {
  snprintf(name, sizeof name, "/var/cache/bis-guest-%d", getpid());
  put('a');
  // What has changed a moment ago is not taken to be known.
  struct timespec moment = {2, 300000000};
  CHECK(nanosleep(&moment, NULL) == 0);
  shows('a', 200);
  put('b');
  // What it is now is as young, and so each of these is traced.
  shows('b', 5);
  CHECK(unlink(name) == 0);
  return guest_ok();
}
