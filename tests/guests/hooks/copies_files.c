// Whoever copies a file asks for as much as there can be: that is made in a hook where the file is small, and copies all of it
// where it is large, beside threads that want to run.
// unstopped: copy_file_range sendfile
#include "../guest.h"
#include <sys/sendfile.h>

enum { SMALL = 3000, LARGE = 20 << 20, TIMES = 60 };
static char data[SMALL], got[SMALL];
static volatile int stop;

static void *spin(void *arg) {
  for (volatile long i = 0; !stop; i++) {
  }
  return arg;
}

static int file(const char *name) {
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0);
  return fd;
}

static void small(int from, const char *to) {
  int fd = file(to);
  CHECK(lseek(from, 0, SEEK_SET) == 0);
  CHECK(copy_file_range(from, NULL, fd, NULL, SSIZE_MAX & ~4095l, 0) == SMALL);
  CHECK(copy_file_range(from, NULL, fd, NULL, SSIZE_MAX & ~4095l, 0) == 0);
  off_t at = 0;
  CHECK(sendfile(fd, from, &at, 1 << 30) == SMALL && at == SMALL);
  CHECK(sendfile(fd, from, &at, 1 << 30) == 0);
  for (int i = 0; i < 2; i++) CHECK(pread(fd, got, SMALL, i * SMALL) == SMALL && memcmp(got, data, SMALL) == 0);
  CHECK(close(fd) == 0);
}

static void large(int from) {
  int fd = file("to");
  loff_t at = 0;
  CHECK(copy_file_range(from, &at, fd, NULL, SSIZE_MAX & ~4095l, 0) == LARGE);
  off_t start = 0;
  CHECK(sendfile(fd, from, &start, 1 << 30) == LARGE);
  CHECK(lseek(fd, 0, SEEK_END) == 2 * LARGE && pread(fd, got, SMALL, LARGE) == SMALL && memcmp(got, data, SMALL) == 0);
  CHECK(close(fd) == 0);
}

int main(void) {
  for (int i = 0; i < SMALL; i++) data[i] = (char)(i * 7 / 3);
  int from = file("small"), much = file("large");
  CHECK(write(from, data, SMALL) == SMALL && write(much, data, SMALL) == SMALL && ftruncate(much, LARGE) == 0);
  for (int i = 0; i < TIMES; i++) small(from, i % 2 ? "to" : "another");
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) threads[i] = start_thread(spin, NULL);
  for (int i = 0; i < 2; i++) large(much);
  stop = 1;
  for (int i = 0; i < 2; i++) join_thread(threads[i]);
  return guest_ok();
}
