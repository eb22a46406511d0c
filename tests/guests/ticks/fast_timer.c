// A timer that fires twenty thousand times a second, in a program that only computes: it must come to its end though each
// of them stops it, and what the handler has seen is the same in replay.
#include "../guest.h"
#include <sys/time.h>

static volatile unsigned long sum = 1;
static unsigned long seen, ticks;

static void handler(int signal) {
  (void)signal;
  seen = seen * 31 + sum;
  ticks++;
}

int main(void) {
  struct sigaction action = {.sa_handler = handler};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  for (int i = 0; i < 50000000; i++) sum = sum * 3 + (unsigned long)i;
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  CHECK(ticks > 0);
  printf("%lu ticks, seen %lx, sum %lx\n", ticks, seen, sum);
  return guest_ok();
}
