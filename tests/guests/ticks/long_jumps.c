// siglongjmp out of handlers that came in the middle of a computation.
// steps: -DTIMES=8 -DPERIOD=60000
#include "../guest.h"
#include <setjmp.h>
#include <sys/time.h>

// Microseconds.
#ifndef PERIOD
#define PERIOD 1000
#endif

#ifndef TIMES
#define TIMES 25
#endif

static sigjmp_buf back;
static volatile unsigned long count;
static void handler(int sig) { siglongjmp(back, sig); }

int main(void) {
  struct itimerval on = {{0, PERIOD}, {0, PERIOD}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  volatile int jumps = 0;
  static unsigned long counts[TIMES];
  if (sigsetjmp(back, 1)) {
    // More may come before the timer is off.
    if (jumps < TIMES) counts[jumps++] = count;
  } else {
    CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  }
  while (jumps < TIMES) count++;
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  for (int i = 0; i < TIMES; i++) printf("%lu ", counts[i]);
  puts("");
  return guest_ok();
}
