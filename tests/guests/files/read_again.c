// The same pages are read again and again, by calls of several kinds and by a child: the trace has them once,
// and each reader gets what the file had when it read.
#include "../guest.h"
#include <sys/uio.h>
#include <sys/wait.h>

#define PAGES 24

static unsigned char file[PAGES * PAGE], got[PAGES * PAGE];

static void fill(unsigned seed) {
  unsigned long word = seed;
  for (int i = 0; i < PAGES * PAGE; i++) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    // One page in three compresses.
    file[i] = i / PAGE % 3 ? (unsigned char)(word >> 56) : (unsigned char)(i / 64);
  }
}

static void read_all(int fd, int rounds) {
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < PAGES; i++) {
      int page = (i * 7 + round) % PAGES;
      CHECK(pread(fd, got, PAGE, page * PAGE) == PAGE);
      CHECK(memcmp(got, file + page * PAGE, PAGE) == 0);
    }
    // Large ones, one that does not begin at a page, and one with two places to go.
    CHECK(pread(fd, got, sizeof got, 0) == sizeof got && memcmp(got, file, sizeof got) == 0);
    CHECK(pread(fd, got, 9000, 100) == 9000 && memcmp(got, file + 100, 9000) == 0);
    struct iovec parts[2] = {{got, 5000}, {got + 3 * PAGE, PAGE}};
    CHECK(preadv(fd, parts, 2, PAGE) == 5000 + PAGE);
    CHECK(memcmp(got, file + PAGE, 5000) == 0 && memcmp(got + 3 * PAGE, file + PAGE + 5000, PAGE) == 0);
  }
}

int main(void) {
  int fd = open("again", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0);
  for (unsigned seed = 1; seed < 4; seed++) {
    fill(seed);
    CHECK(pwrite(fd, file, sizeof file, 0) == sizeof file);
    read_all(fd, 5);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      read_all(fd, 3);
      _exit(0);
    }
    // At the same time as the child.
    read_all(fd, 3);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  return guest_ok();
}
