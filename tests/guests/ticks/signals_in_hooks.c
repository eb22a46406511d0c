// Signals that find the task in the hook of an instruction, which has branches of its own: where branches are counted, replay makes
// the same.
// steps: -DSIGNALS=30
#include "../guest.h"
#include <cpuid.h>
#include <sys/time.h>

#ifndef SIGNALS
#define SIGNALS 200
#endif

static volatile sig_atomic_t came;
static void handler(int sig) {
  (void)sig;
  came++;
}

int main(void) {
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  unsigned long sum = 0, rounds = 0;
  while (came < SIGNALS) {
    unsigned a, b, c, d;
    __cpuid(0, a, b, c, d);
    sum += b & 1 ? a : c;
    if (++rounds % 3 == 0) sum ^= d;
  }
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  printf("%lu rounds, %lx\n", rounds, sum);
  return guest_ok();
}
