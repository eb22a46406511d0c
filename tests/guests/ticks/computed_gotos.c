// A machine of a few instructions, interpreted by computed gotos, whose state is an array in memory; a timer looks at it.
#include "../guest.h"
#include <sys/time.h>

static volatile sig_atomic_t came;
static volatile uint32_t cells[4096];
static uint32_t seen[40];

static void handler(int sig) {
  (void)sig;
  if (came < 40) seen[came++] = cells[2048];
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
  if (came < 40) {
    pc = program;
    at = 2046;
    NEXT;
  }
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  for (int i = 0; i < 40; i++) printf("%u ", seen[i]);
  printf("\n%u\n", cells[2048]);
  return guest_ok();
}
