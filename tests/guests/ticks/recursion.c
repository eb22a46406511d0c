// Handlers in the middle of deep recursion: what differs between two moments is far from the top of the stack.
// steps: -DTIMES=3 -DDEPTH=200 -DWIDTH=10
#include "../guest.h"
#include <sys/time.h>

#ifndef TIMES
#define TIMES 30
#endif

#ifndef DEPTH
#define DEPTH 5000
#endif

#ifndef WIDTH
#define WIDTH 200
#endif

static volatile sig_atomic_t came;
static volatile int depth;
static int depths[2 * TIMES];

static void handler(int sig) {
  (void)sig;
  if (came < 2 * TIMES) depths[came++] = depth;
}

__attribute__((noinline)) static long dive(int n) {
  depth = n;
  volatile long here = n;
  if (n == 0) return 1;
  long below = dive(n - 1);
  depth = n;
  return below + (here & 1);
}

// The Ackermann function: two levels of it look alike for a long time.
__attribute__((noinline)) static unsigned ackermann(unsigned m, unsigned n) {
  depth++;
  unsigned value = m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
  depth--;
  return value;
}

int main(void) {
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  while (came < TIMES) CHECK(dive(DEPTH) == DEPTH / 2 + 1);
  depth = 0;
  while (came < 2 * TIMES) CHECK(ackermann(2, WIDTH) == 2 * WIDTH + 3);
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  for (int i = 0; i < 2 * TIMES; i++) printf("%d ", depths[i]);
  puts("");
  return guest_ok();
}
