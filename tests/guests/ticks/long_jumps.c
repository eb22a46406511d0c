// siglongjmp out of handlers that came in the middle of a computation.
#include "../guest.h"
#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile unsigned long count;
static void handler(int sig) { siglongjmp(back, sig); }

int main(void) {
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  volatile int jumps = 0;
  static unsigned long counts[60];
  if (sigsetjmp(back, 1)) {
    counts[jumps] = count;
    jumps++;
  } else {
    CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  }
  while (jumps < 60) count++;
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  for (int i = 0; i < 60; i++) printf("%lu ", counts[i]);
  puts("");
  return guest_ok();
}
