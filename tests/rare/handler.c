// A handler takes an element off the list to which the main program adds one: the main program has read the length and not
// yet written it. It is interrupted once, by a timer, in a computation of some milliseconds that adds a hundred times.
#include "rare.h"

#define TIMES 100

static volatile int length, added, taken;

static void on_timer(int sig) {
  (void)sig;
  if (length > 0) {
    length = length - 1;
    taken++;
  }
}

__attribute__((noinline)) static void add(void) {
  int old = length;
  OPAQUE();
  added++;
  length = old + 1;
}

int main(void) {
  signal(SIGALRM, on_timer);
  struct itimerval once = {{0, 0}, {0, 3000}};
  MUST(setitimer(ITIMER_REAL, &once, NULL) == 0);
  for (int i = 0; i < TIMES; i++) {
    add();
    work(50000 + (uint64_t)i);
  }
  // The timer has come by now, or it will come between these.
  once.it_value.tv_usec = 0;
  MUST(setitimer(ITIMER_REAL, &once, NULL) == 0);
  if (length != added - taken) WRONG("length is %d after %d were added and %d taken", length, added, taken);
  return right("the length is that of the list");
}
