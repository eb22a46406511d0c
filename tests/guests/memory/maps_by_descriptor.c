// The list of a program's mappings is read in pieces, by descriptors that come to mean something else in between: its position is that of
// the open file, which a dup and a child share, and another one has its own.
#include "../guest.h"

static char all[1 << 16];
static size_t len;

static int open_maps(void) {
  int fd = open("/proc/self/maps", O_RDONLY);
  CHECK(fd >= 0);
  return fd;
}

// The next bytes are those from `at` on.
static size_t expect(int fd, size_t at, size_t n) {
  char buf[4096];
  ssize_t got = read(fd, buf, n);
  CHECK(got >= 0 && at + got <= len && memcmp(buf, all + at, got) == 0);
  CHECK(got > 0 || at == len);
  return at + got;
}

int main(void) {
  // Nothing is mapped from here on.
  int fd = open_maps(), status = open("/proc/self/status", O_RDONLY);
  ssize_t n;
  while ((n = read(fd, all + len, 1000)) > 0) len += n;
  CHECK(n == 0 && len > 400 && close(fd) == 0);

  fd = open_maps();
  int other = open_maps(), same = dup(fd);
  size_t at = expect(fd, 0, 100), at_other = 0;
  at = expect(same, at, 50);
  at_other = expect(other, 0, 30);
  at = expect(fd, at, 70);
  CHECK((size_t)lseek(same, 0, SEEK_CUR) == at);

  // A child goes on where its parent is, and the parent behind that.
  pid_t child = fork();
  if (child == 0) {
    // Its list is its own, and may be another one.
    char c;
    for (int i = 0; i < 60; i++) CHECK(read(fd, &c, 1) == 1);
    _exit(0);
  }
  check_exited(child, 0);
  at += 60;
  CHECK((size_t)lseek(fd, 0, SEEK_CUR) == at);
  at = expect(fd, at, 40);

  // The same number means the other open file, a file of another kind, and a new one.
  CHECK(dup2(other, fd) == fd);
  at_other = expect(fd, at_other, 80);
  at_other = expect(other, at_other, 80);
  at = expect(same, at, 20);
  char first[8];
  CHECK(dup2(status, fd) == fd && read(fd, first, 5) == 5 && memcmp(first, "Name:", 5) == 0);
  CHECK(lseek(status, 0, SEEK_CUR) == 5 && lseek(fd, 0, SEEK_SET) == 0);
  CHECK(read(status, first, 5) == 5 && memcmp(first, "Name:", 5) == 0);
  CHECK(close(fd) == 0 && open_maps() == fd);
  CHECK(expect(fd, 0, 64) == 64);
  CHECK(lseek(fd, 200, SEEK_SET) == 200 && expect(fd, 200, 32) == 232);
  CHECK(pread(fd, first, 8, 16) == 8 && memcmp(first, all + 16, 8) == 0 && expect(fd, 232, 16) == 248);
  while (at < len) at = expect(same, at, 333);
  CHECK(expect(same, len, 10) == len);
  return guest_ok();
}
