// Every kind of timer, at 1 kHz, against a loop that makes no call. Where the handlers came is what the loop had counted.
// steps: -DTIMES=3
#include "../guest.h"
#include <sys/time.h>

#ifndef TIMES
#define TIMES 12
#endif

static volatile unsigned long count;
static volatile sig_atomic_t came;
static unsigned long at[TIMES];

static void handler(int sig) {
  (void)sig;
  if (came < TIMES) at[came++] = count;
}

static void compute(const char *what) {
  while (came < TIMES) count++;
  printf("%s:", what);
  for (int i = 0; i < TIMES; i++) {
    CHECK(i == 0 || at[i] >= at[i - 1]);
    printf(" %lu", at[i]);
  }
  puts("");
}

int main(void) {
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  static const struct {
    int which, sig;
    const char *name;
  } kinds[] = {{ITIMER_REAL, SIGALRM, "real"}, {ITIMER_VIRTUAL, SIGVTALRM, "virtual"}, {ITIMER_PROF, SIGPROF, "prof"}};
  for (size_t i = 0; i < 3; i++) {
    came = 0;
    on_signal(kinds[i].sig, handler, SA_RESTART);
    CHECK(setitimer(kinds[i].which, &on, NULL) == 0);
    compute(kinds[i].name);
    CHECK(setitimer(kinds[i].which, &off, NULL) == 0);
  }
  came = 0;
  on_signal(SIGRTMIN + 3, handler, 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec spec = {{0, 1000000}, {0, 1000000}};
  CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
  compute("timer_create");
  CHECK(timer_delete(timer) == 0);
  return guest_ok();
}
