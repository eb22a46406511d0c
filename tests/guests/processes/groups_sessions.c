// Process groups and sessions: setpgid, getpgrp, setsid, kill of a whole group, errors.
#include "../guest.h"

int main(void) {
  int tell[2], status;
  char c;
  CHECK(pipe(tell) == 0);
  pid_t kids[3];
  for (int i = 0; i < 3; i++) {
    kids[i] = fork();
    if (kids[i] == 0) {
      CHECK(setpgid(0, i ? kids[0] : 0) == 0);
      CHECK(getpgrp() == (i ? kids[0] : getpid()) && getpgid(0) == getpgrp());
      CHECK(write(tell[1], "r", 1) == 1);
      for (;;) pause();
    }
    CHECK(read(tell[0], &c, 1) == 1);
  }
  CHECK(getpgid(kids[2]) == kids[0]);
  CHECK(kill(-kids[0], SIGTERM) == 0);
  int seen = 0;
  for (int i = 0; i < 3; i++) {
    pid_t p = waitpid(-kids[0], &status, 0);
    CHECK(p > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    seen += p == kids[0] || p == kids[1] || p == kids[2];
  }
  CHECK(seen == 3);
  CHECK_ERRNO(kill(-kids[0], SIGTERM), ESRCH);
  pid_t p = fork();
  if (p == 0) {
    CHECK(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
    CHECK_ERRNO(setsid(), EPERM);
    CHECK_ERRNO(setpgid(0, 0), EPERM);
    CHECK(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
    _exit(3);
  }
  check_exited(p, 3);
  CHECK_ERRNO(setpgid(0, 999999), EPERM);
  printf("session %d, group %d\n", getsid(0), getpgrp());
  return guest_ok();
}
