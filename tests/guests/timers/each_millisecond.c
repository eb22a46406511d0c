// A timer of a millisecond in a program that makes no call: its handler comes in the middle of computation each time, first in one
// thread, then among several that compute.
#include "../guest.h"
#include <sys/time.h>

static volatile int handled;
static volatile uint64_t made[3];

static void count_it(int signal) {
  (void)signal;
  handled++;
}

static void *compute(void *arg) {
  int me = (int)(intptr_t)arg, until = handled + 30;
  while (handled < until) made[me] = made[me] * 3 + 1;
  return NULL;
}

int main(void) {
  on_signal(SIGALRM, count_it, SA_RESTART);
  struct itimerval each = {{0, 1000}, {0, 1000}};
  CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
  compute((void *)0);
  pthread_t threads[2];
  for (intptr_t i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, compute, (void *)(i + 1)) == 0);
  compute((void *)0);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
  CHECK(handled >= 60);
  printf("%lu %lu %lu\n", (unsigned long)made[0], (unsigned long)made[1], (unsigned long)made[2]);
  return guest_ok();
}
