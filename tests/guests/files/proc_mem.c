// Memory through /proc/PID/mem: reading, of oneself and of a child; and writing, which a recorder may forbid.
#include "../guest.h"

static char secret[64] = "the secret", area[64] = "before";

int main(void) {
  char got[64], path[64];
  int fd = open("/proc/self/mem", O_RDONLY);
  CHECK(fd >= 0);
  CHECK(pread(fd, got, 64, (off_t)(uintptr_t)secret) == 64 && strcmp(got, secret) == 0);
  CHECK_ERRNO(pread(fd, got, 1, 16), EIO);
  CHECK_ERRNO(pwrite(fd, "x", 1, (off_t)(uintptr_t)secret), EBADF);
  CHECK(close(fd) == 0);

  int next = dup(0);
  CHECK(next == fd && close(next) == 0);
  CHECK(symlink("/proc/self/mem", "mem") == 0 && symlink("/proc", "folder") == 0);
  for (int how = 0; how < 5; how++) {
    snprintf(path, sizeof path, "/proc/%d/mem", getpid());
    int w = how == 0   ? open("/proc/self/mem", O_RDWR)
            : how == 1 ? openat(AT_FDCWD, path, O_WRONLY)
            : how == 2 ? openat(AT_FDCWD, "/proc/thread-self/mem", O_RDWR | O_CLOEXEC)
            : how == 3 ? open("mem", O_RDWR)
                       : open("folder/self/mem", O_WRONLY);
    if (w == -1) {
      CHECK(errno == EACCES);
      CHECK(strcmp(area, "before") == 0);
      // The number is free again.
      CHECK(dup(0) == next && close(next) == 0);
    } else {
      CHECK(pwrite(w, "behind", 7, (off_t)(uintptr_t)area) == 7 && strcmp(area, "behind") == 0);
      strcpy(area, "before");
      CHECK(close(w) == 0);
    }
  }

  int up[2], down[2];
  CHECK(pipe(up) == 0 && pipe(down) == 0);
  pid_t pid = fork();
  char c;
  if (pid == 0) {
    strcpy(area, "child");
    CHECK(write(up[1], "r", 1) == 1 && read(down[0], &c, 1) == 1);
    CHECK(strcmp(area, c == 'w' ? "behind" : "child") == 0);
    _exit(0);
  }
  CHECK(read(up[0], &c, 1) == 1);
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  fd = open(path, O_RDONLY);
  if (fd >= 0) {
    CHECK(pread(fd, got, 6, (off_t)(uintptr_t)area) == 6 && strcmp(got, "child") == 0);
    CHECK(close(fd) == 0);
  } else {
    CHECK(errno == EACCES || errno == EPERM);
  }
  fd = open(path, O_RDWR);
  if (fd >= 0) CHECK(pwrite(fd, "behind", 7, (off_t)(uintptr_t)area) == 7);
  else CHECK(errno == EACCES || errno == EPERM);
  CHECK(write(down[1], fd >= 0 ? "w" : "n", 1) == 1);
  check_exited(pid, 0);
  printf("%p %d\n", (void *)area, pid);
  return guest_ok();
}
