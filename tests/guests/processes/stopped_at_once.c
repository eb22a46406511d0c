// A child that is stopped before it has done anything: as soon as a wait tells that, /proc does, too.
#include "../guest.h"

static char state(pid_t pid) {
  char path[40], text[400];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  ssize_t len = read(fd, text, sizeof text - 1);
  CHECK(len > 0 && close(fd) == 0);
  text[len] = 0;
  return strrchr(text, ')')[2];
}

int main(void) {
  for (int round = 0; round < 60; round++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
      for (;;) pause();
    CHECK(kill(child, SIGSTOP) == 0);
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    for (int look = 0; look < 20; look++) CHECK(state(child) == 'T');
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  }
  return guest_ok();
}
