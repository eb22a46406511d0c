// A machine of a few instructions, interpreted by computed gotos, whose state is an array in memory; a timer looks at it.
// steps: -DTIMES=10
#include "../guest.h"
#include <sys/time.h>

#ifndef TIMES
#define TIMES 40
#endif

static volatile sig_atomic_t came;
static volatile uint32_t cells[4096];
static uint32_t seen[TIMES];

static void handler(int sig) {
  (void)sig;
  if (came < TIMES) seen[came++] = cells[2048];
}

int main(void) {
  enum { INC, MOVE, BACK, ADD, LOOP };
  static const unsigned char program[] = {MOVE, MOVE, INC, BACK, MOVE, ADD, BACK, BACK, INC, LOOP};
  static void *const labels[] = {&&inc, &&move, &&back, &&add, &&loop};
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  const unsigned char *pc = program;
  unsigned at = 2046;
#define NEXT goto *labels[*pc++]
  NEXT;
inc:
  cells[at]++;
  NEXT;
move:
  at++;
  NEXT;
back:
  at--;
  NEXT;
add:
  cells[at] += cells[at - 1];
  NEXT;
loop:
  if (came < TIMES) {
    pc = program;
    at = 2046;
    NEXT;
  }
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  for (int i = 0; i < TIMES; i++) printf("%u ", seen[i]);
  printf("\n%u\n", cells[2048]);
  return guest_ok();
}
