// Handlers in the middle of deep recursion: what differs between two moments is far from the top of the stack.
#include "../guest.h"
#include <sys/time.h>

static volatile sig_atomic_t came;
static volatile int depth;
static int depths[60];

static void handler(int sig) {
  (void)sig;
  if (came < 60) depths[came++] = depth;
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
  while (came < 30) CHECK(dive(5000) == 2501);
  depth = 0;
  while (came < 60) CHECK(ackermann(2, 200) == 403);
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  for (int i = 0; i < 60; i++) printf("%d ", depths[i]);
  puts("");
  return guest_ok();
}
