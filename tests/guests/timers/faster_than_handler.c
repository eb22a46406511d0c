// A timer that fires faster than its handler runs: the program itself comes on all the same, with calls and without.
#include "../guest.h"

static volatile long fired, overruns;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)ctx;
  fired++;
  overruns += info->si_overrun;
}

static void run(long every_ns) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec every = {{0, every_ns}, {0, every_ns}}, off = {{0, 0}, {0, 0}};
  long before = fired;
  CHECK(timer_settime(timer, 0, &every, NULL) == 0);
  volatile uint64_t x = 1;
  long calls = 0;
  // Each of these is more work than the time between two signals.
  for (int i = 0; i < 200; i++) {
    for (int k = 0; k < 2000; k++) x = x * 3 + 1;
    CHECK(getppid() > 0);
    struct timespec now;
    CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0);
    calls += 2;
  }
  while (fired < before + 20) x = x * 3 + 1;
  CHECK(timer_settime(timer, 0, &off, NULL) == 0);
  CHECK(timer_delete(timer) == 0);
  printf("%ld ns: %ld calls, %ld signals\n", every_ns, calls, fired - before);
}

int main(void) {
  on_siginfo(SIGRTMIN, handler, 0);
  // (At 5 us, the machine that this was written on gives the program no time natively.)
  run(20000);
  run(100000);
  run(1000000);
  printf("%ld overruns\n", overruns);
  return guest_ok();
}
