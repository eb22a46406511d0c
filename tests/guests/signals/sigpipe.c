// Writing to a pipe without readers: SIGPIPE kills, ignored gives EPIPE, a handler runs and EPIPE follows.
#include "../guest.h"
#include <sys/socket.h>

static volatile int got;
static void handler(int sig) { got = sig; }

int main(void) {
  int p[2], s[2];
  CHECK(pipe(p) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
  close(p[0]), close(s[0]);
  pid_t child = fork();
  if (child == 0) {
    (void)!write(p[1], "x", 1);
    _exit(1);
  }
  check_killed(child, SIGPIPE);
  signal(SIGPIPE, SIG_IGN);
  CHECK_ERRNO(write(p[1], "x", 1), EPIPE);
  on_signal(SIGPIPE, handler, 0);
  CHECK_ERRNO(write(p[1], "x", 1), EPIPE);
  CHECK(got == SIGPIPE);
  got = 0;
  CHECK_ERRNO(send(s[1], "x", 1, MSG_NOSIGNAL), EPIPE);
  CHECK(got == 0);
  CHECK_ERRNO(send(s[1], "x", 1, 0), EPIPE);
  CHECK(got == SIGPIPE);
  printf("child %d died of it\n", child);
  return guest_ok();
}
