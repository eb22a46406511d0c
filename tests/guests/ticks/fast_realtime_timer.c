// A timer that fires twenty thousand times a second with a real-time signal, of which the kernel queues any number, but of a timer only
// one: the rest are overruns. The program comes on, in computation and between calls, and nothing is counted twice.
// steps: -DCALLS=4 -DLOOPS=100
#include "../guest.h"

#ifndef CALLS
#define CALLS 1000
#define LOOPS 20000000
#endif

static volatile unsigned long handlers, expirations, sum;

static void handler(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  CHECK(info->si_code == SI_TIMER && info->si_value.sival_int == 4711 && info->si_overrun >= 0);
  handlers++;
  expirations += 1ul + (unsigned long)info->si_overrun;
}

static long now(void) {
  struct timespec t;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(void) {
  on_siginfo(SIGRTMIN + 5, handler, 0);
  struct sigevent event = {
      .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 5, .sigev_value.sival_int = 4711};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const long period = 50000;
  struct itimerspec often = {{0, period}, {0, period}};
  long began = now();
  CHECK(timer_settime(timer, 0, &often, NULL) == 0);
  for (int i = 0; i < LOOPS; i++) sum += (unsigned long)i;
  int fd = open("/dev/null", O_WRONLY);
  for (int i = 0; i < CALLS; i++) CHECK(write(fd, "x", 1) == 1);
  CHECK(timer_delete(timer) == 0);
  unsigned long most = (unsigned long)((now() - began) / period) + 1;
  CHECK(handlers > 0 && expirations <= most);
  printf("%lu handlers, %lu of at most %lu times\n", handlers, expirations, most);
  return guest_ok();
}
