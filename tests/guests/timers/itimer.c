// setitimer and alarm: SIGALRM interrupts read and pause, intervals repeat, remaining time is told.
#include "../guest.h"
#include <sys/time.h>

static volatile int alarms;
static void handler(int sig) { (void)sig, alarms++; }

int main(void) {
  int p[2];
  char c;
  CHECK(pipe(p) == 0);
  on_signal(SIGALRM, handler, 0);
  struct itimerval once = {{0, 20000}, {0, 20000}}, old, every = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
  CHECK_ERRNO(read(p[0], &c, 1), EINTR);
  CHECK(alarms >= 1); // more, if the first came before the call
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  while (alarms < 4) CHECK_ERRNO(pause(), EINTR);
  CHECK(getitimer(ITIMER_REAL, &old) == 0 && old.it_interval.tv_usec == 10000);
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  CHECK(alarm(100) == 0);
  unsigned left = alarm(0);
  CHECK(left == 100 || left == 99);
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGALRM);
  CHECK_ERRNO(setitimer(99, &once, NULL), EINVAL);
  printf("%d alarms, %ld us to go\n", alarms, (long)old.it_value.tv_usec);
  return guest_ok();
}
