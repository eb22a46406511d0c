// A timer that fires faster than its handler can be recorded: the program still gets on.
#include "../guest.h"
#include <sys/time.h>

static volatile sig_atomic_t count;
static void handler(int sig) {
  (void)sig;
  count++;
}

int main(void) {
  struct sigaction sa = {.sa_handler = handler};
  CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
  struct itimerspec fast = {{0, 1000000}, {0, 1000000}};
  CHECK(timer_settime(timer, 0, &fast, NULL) == 0);
  volatile unsigned long sum = 0;
  for (unsigned long i = 0; i < 20000000; i++) sum += i;
  CHECK(timer_delete(timer) == 0 && count > 0 && sum == 199999990000000);
  printf("%d\n", count);
  return guest_ok();
}
