// Code that is written at run time, runs under a timer, and is written again: a breakpoint that replay puts there must not
// survive.
// calm: replay stops each time that the loop comes to a place where no breakpoint with a condition can be, for minutes
// steps: -DTIMES=5 -DPASSES=1000 -DCHANGES=10
#include "loops.h"
#include <sys/time.h>

#ifndef TIMES
#define TIMES 40
#endif

#ifndef PASSES
#define PASSES 50000
#endif

#ifndef CHANGES
#define CHANGES 200
#endif

static volatile sig_atomic_t came;
static void handler(int sig) {
  (void)sig;
  came++;
}

int main(void) {
  unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  for (int i = 0; i < TIMES; i++) {
    write_loop(code, (unsigned)i, i % 9);
    CHECK(((Loop)code)(PASSES) == (unsigned long)PASSES * (unsigned)i);
    // A loop that rewrites the constant of its own next pass.
    write_loop(code, 0, i % 5);
    for (unsigned n = 0; n < CHANGES; n++) {
      memcpy(code + 4, &n, 4);
      CHECK(((Loop)code)(3) == 3ul * n);
    }
  }
  int before = came;
  while (came < before + 3) ((Loop)code)(1000);
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  printf("%d signals\n", came);
  return guest_ok();
}
