// Two timers that fire faster than bis calls handlers: each interrupts the return of the other's handler. The program comes on
// all the same, call by call.
#include "../guest.h"

static volatile unsigned long ticks[2];

static void tick(int sig) { ticks[sig - SIGRTMIN]++; }

int main(void) {
  timer_t timer[2];
  for (int i = 0; i < 2; i++) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + i};
    CHECK(sigaction(SIGRTMIN + i, &action, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer[i]) == 0);
    struct itimerspec every = {{0, 25000}, {0, 25000}};
    CHECK(timer_settime(timer[i], 0, &every, NULL) == 0);
  }
  for (int i = 0; i < 300; i++) CHECK(syscall(SYS_getppid) == getppid());
  while (ticks[0] < 3 || ticks[1] < 3) CHECK(getpid() > 0);
  for (int i = 0; i < 2; i++) CHECK(timer_delete(timer[i]) == 0);
  printf("%d %d\n", ticks[0] > 2, ticks[1] > 2);
  return guest_ok();
}
