// Timers of timer_create: one that was set otherwise since runs as it did, one that was made since is gone.
#include "checkpoints.h"

static timer_t make(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  return timer;
}

static void set(timer_t timer, time_t seconds) {
  struct itimerspec value = {{0, 0}, {seconds, 0}};
  CHECK(timer_settime(timer, 0, &value, NULL) == 0);
}

static long left(timer_t timer) {
  struct itimerspec value;
  return timer_gettime(timer, &value) == 0 ? value.it_value.tv_sec : -1;
}

int main(void) {
  needs_bis();
  timer_t runs = make(), rests = make();
  set(runs, 1000);
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0);
  printf("%d: %ld %ld\n", times, left(runs), left(rests));
  CHECK(left(runs) > 900 && left(runs) <= 1000 && left(rests) == 0);
  volatile timer_t newer = make();
  set(newer, 50);
  set(runs, 0);
  set(rests, 70);
  CHECK(left(runs) == 0 && left(rests) > 0 && left(newer) > 0);
  if (times < 3) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  return guest_ok();
}
