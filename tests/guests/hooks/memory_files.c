// unstopped: memfd_create ftruncate fcntl prctl
// Files in memory, as browsers make them by the hundred: made, given a length, sealed, written to, and then mapped by several processes.
// Before one is mapped, nothing is known of it but to the kernel.
#define _GNU_SOURCE
#include "../guest.h"

#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static int make(const char *name) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_GROW | F_SEAL_SHRINK));
  CHECK_ERRNO(ftruncate(fd, PAGE), EPERM);
  return fd;
}

static char *map(int fd) {
  char *m = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED);
  return m;
}

int main(void) {
  for (int round = 0; round < 100; round++) {
    int fd = make("part of a browser");
    CHECK(pwrite(fd, "written", 8, PAGE) == 8 && close(fd) == 0);
    char *named = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(named != MAP_FAILED);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, named, PAGE, "a name");
    CHECK(named[0] == 0 && munmap(named, 2 * PAGE) == 0);
  }

  // Written to, mapped, and written to again, by its descriptor and by another one.
  int fd = make("mapped");
  CHECK(pwrite(fd, "first", 6, 10) == 6);
  char *m = map(fd);
  CHECK(strcmp(m + 10, "first") == 0);
  int other = dup(fd);
  CHECK(pwrite(other, "again", 6, 20) == 6 && strcmp(m + 20, "again") == 0);
  CHECK(pwrite(fd, "third", 6, PAGE) == 6 && strcmp(m + PAGE, "third") == 0);
  m[30] = 'm';
  char c = 0;
  CHECK(pread(fd, &c, 1, 30) == 1 && c == 'm');

  // A child maps it where it has not been mapped before, and its parent writes to it.
  int pipes[2];
  int late = make("late");
  CHECK(pipe(pipes) == 0);
  pid_t child = fork();
  if (child == 0) {
    char *mine = map(late);
    CHECK(read(pipes[0], &c, 1) == 1);
    CHECK(strcmp(mine, "from the parent") == 0);
    mine[PAGE] = 'c';
    CHECK(munmap(m, 2 * PAGE) == 0);
    _exit(0);
  }
  CHECK(pwrite(late, "from the parent", 16, 0) == 16);
  CHECK(write(pipes[1], "g", 1) == 1);
  check_exited(child, 0);
  CHECK(pread(late, &c, 1, PAGE) == 1 && c == 'c');

  // One whose length changes while it is mapped.
  int grows = memfd_create("grows", 0);
  CHECK(grows >= 0 && ftruncate(grows, PAGE) == 0);
  char *g = map(grows);
  CHECK(ftruncate(grows, 2 * PAGE) == 0);
  g[PAGE] = 'g';
  CHECK(pread(grows, &c, 1, PAGE) == 1 && c == 'g');
  CHECK(ftruncate(grows, 0) == 0 && ftruncate(grows, 2 * PAGE) == 0 && g[PAGE] == 0);
  CHECK_ERRNO(fcntl(grows, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
  CHECK_ERRNO(memfd_create((char *)1, 0), EFAULT);
  CHECK_ERRNO(memfd_create("x", ~0u), EINVAL);
  return guest_ok();
}
