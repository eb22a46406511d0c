// Job control between processes: SIGSTOP and SIGCONT seen by the parent, a handler for SIGCONT, killed while stopped.
#include "../guest.h"

static int tell[2];
static void on_cont(int sig) {
  (void)sig;
  CHECK(write(tell[1], "c", 1) == 1);
}

int main(void) {
  int status;
  char c;
  CHECK(pipe(tell) == 0);
  pid_t p = fork();
  if (p == 0) {
    on_signal(SIGCONT, on_cont, SA_RESTART);
    for (int i = 0; i < 3; i++) CHECK(raise(SIGSTOP) == 0);
    for (;;) pause();
  }
  for (int i = 0; i < 3; i++) {
    CHECK(waitpid(p, &status, WUNTRACED) == p && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(waitpid(p, &status, WUNTRACED | WNOHANG) == 0);
    CHECK(kill(p, SIGCONT) == 0);
    CHECK(read(tell[0], &c, 1) == 1 && c == 'c');
    // SIGCONT's report may have been overtaken by the next stop.
    int r = waitpid(p, &status, WCONTINUED | WNOHANG);
    CHECK(r == 0 || (r == p && WIFCONTINUED(status)));
  }
  CHECK(kill(p, SIGSTOP) == 0);
  CHECK(waitpid(p, &status, WUNTRACED) == p && WIFSTOPPED(status));
  CHECK(kill(p, SIGTERM) == 0);  // pending until it continues
  CHECK(waitpid(p, &status, WNOHANG) == 0);
  CHECK(kill(p, SIGCONT) == 0);
  check_killed(p, SIGTERM);
  p = fork();
  if (p == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  CHECK(waitpid(p, &status, WUNTRACED) == p && WIFSTOPPED(status));
  CHECK(kill(p, SIGKILL) == 0);
  check_killed(p, SIGKILL);
  printf("%d\n", p);
  return guest_ok();
}
