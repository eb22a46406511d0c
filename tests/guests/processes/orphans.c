// An orphan is adopted: by this process as a subreaper; a daemon made by a double fork tells us through a pipe.
#include "../guest.h"
#include <sys/prctl.h>

int main(void) {
  int tell[2];
  CHECK(pipe(tell) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  pid_t middle = fork();
  if (middle == 0) {
    pid_t parent = getpid();
    if (fork() == 0) {
      while (getppid() == parent) usleep(1000);
      int line[2] = {getpid(), getppid()};
      CHECK(write(tell[1], line, sizeof line) == sizeof line);
      _exit(11);
    }
    _exit(0);
  }
  check_exited(middle, 0);
  int line[2];
  CHECK(read(tell[0], line, sizeof line) == sizeof line && line[1] == getpid());
  check_exited(line[0], 11);
  // A daemon: new session, double fork, no descriptors but the pipe.
  pid_t p = fork();
  if (p == 0) {
    setsid();
    if (fork()) _exit(0);
    CHECK(chdir("/") == 0);
    umask(0);
    for (int fd = 0; fd < 3; fd++) close(fd);
    CHECK(open("/dev/null", O_RDWR) == 0);
    line[0] = getpid(), line[1] = getsid(0);
    (void)!write(tell[1], line, sizeof line);
    _exit(0);
  }
  check_exited(p, 0);
  CHECK(read(tell[0], line, sizeof line) == sizeof line && line[0] != line[1]);
  check_exited(line[0], 0);
  printf("daemon %d in session %d\n", line[0], line[1]);
  return guest_ok();
}
