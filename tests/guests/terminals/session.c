// cflags: -lutil
// A child with a controlling terminal: ^C becomes SIGINT, SIGWINCH comes, background reads get SIGTTIN.
#include "../guest.h"
#include <pty.h>
#include <sys/ioctl.h>

static volatile int winches, ints;
static int tell[2];
static void handler(int sig) {
  if (sig == SIGINT) ints++;
  else winches++;
  CHECK(write(tell[1], sig == SIGINT ? "i" : "w", 1) == 1);
}

int main(void) {
  int m, status;
  char c, buf[256];
  CHECK(pipe(tell) == 0);
  pid_t p = forkpty(&m, NULL, NULL, NULL);
  if (p == 0) {
    on_signal(SIGINT, handler, SA_RESTART), on_signal(SIGWINCH, handler, SA_RESTART);
    CHECK(tcgetpgrp(0) == getpgrp() && getsid(0) == getpid());
    CHECK(write(tell[1], "r", 1) == 1);
    char line[32] = "";
    CHECK(read(0, line, 31) == 5 && strcmp(line, "line\n") == 0);
    CHECK(ints == 1 && winches == 1);
    pid_t back = fork();
    if (back == 0) {
      setpgid(0, 0);
      CHECK(tcgetpgrp(0) != getpgrp());
      (void)!read(0, line, 1);
      _exit(1);
    }
    int s;
    CHECK(waitpid(back, &s, WUNTRACED) == back && WIFSTOPPED(s) && WSTOPSIG(s) == SIGTTIN);
    CHECK(kill(back, SIGKILL) == 0);
    check_killed(back, SIGKILL);
    _exit(8);
  }
  CHECK(read(tell[0], &c, 1) == 1 && c == 'r');
  CHECK(write(m, "\3", 1) == 1 && read(tell[0], &c, 1) == 1 && c == 'i');
  struct winsize ws = {30, 100, 0, 0};
  CHECK(ioctl(m, TIOCSWINSZ, &ws) == 0 && read(tell[0], &c, 1) == 1 && c == 'w');
  // Its group is orphaned (the parent is in another session), so ^Z must have no effect at all.
  CHECK(write(m, "\32", 1) == 1 && waitpid(p, &status, WUNTRACED | WNOHANG) == 0);
  CHECK(write(m, "line\n", 5) == 5);
  check_exited(p, 8);
  ssize_t n, total = 0;
  while ((n = read(m, buf, sizeof buf)) > 0) total += n;
  CHECK(n == -1 && errno == EIO);
  printf("%d had the terminal, which showed %zd bytes\n", p, total);
  return guest_ok();
}
