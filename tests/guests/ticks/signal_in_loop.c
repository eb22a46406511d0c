// steps:
// A handler is the only way out of a loop that makes no call: a timer's, and one for a signal that another process sends.
#include "../guest.h"
#include <sys/time.h>

static volatile sig_atomic_t got;
static void handler(int sig) { got = sig; }

int main(void) {
  struct sigaction sa = {.sa_handler = handler};
  CHECK(sigaction(SIGALRM, &sa, NULL) == 0 && sigaction(SIGUSR1, &sa, NULL) == 0);
  struct itimerval timer = {{0, 0}, {0, 20000}};
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  while (!got) {
  }
  CHECK(got == SIGALRM);
  got = 0;
  pid_t parent = getpid(), p = fork();
  if (p == 0) {
    usleep(20000);
    _exit(kill(parent, SIGUSR1) != 0);
  }
  while (!got) {
  }
  CHECK(got == SIGUSR1);
  check_exited(p, 0);
  return guest_ok();
}
