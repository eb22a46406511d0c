// A timer that is put out has fired for the last time when the call returns, however fast it was.
#include <sys/time.h>

#include "../guest.h"

enum { ROUNDS = 60 };

static volatile long fired;

static void handler(int sig) {
  (void)sig;
  fired++;
}

static void check_silence(void) {
  long before = fired;
  for (int i = 0; i < 3; i++) CHECK(getppid() > 0);
  volatile uint64_t x = 1;
  for (int i = 0; i < 20000; i++) x = x * 3 + 1;
  CHECK(getppid() > 0 && fired == before);
}

int main(void) {
  on_signal(SIGALRM, handler, 0);
  struct itimerval every = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};
  for (int round = 0; round < ROUNDS; round++) {
    long before = fired;
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (fired < before + 3) CHECK(getppid() > 0);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    check_silence();
  }
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  struct itimerspec often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
  for (int round = 0; round < ROUNDS; round++) {
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    long before = fired;
    CHECK(timer_settime(timer, 0, &often, NULL) == 0);
    while (fired < before + 3) CHECK(getppid() > 0);
    if (round & 1) CHECK(timer_settime(timer, 0, &never, NULL) == 0);
    else CHECK(timer_delete(timer) == 0);
    check_silence();
    if (round & 1) CHECK(timer_delete(timer) == 0);
  }
  return guest_ok();
}
