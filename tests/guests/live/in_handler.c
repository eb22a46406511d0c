// The first checkpoint is made in a handler, on a stack of its own, with timers running, signals blocked and waiting: what
// happens to them later is as without it.
#include "../checkpoints/checkpoints.h"
#include <sys/time.h>

static volatile int ticks, waiting, tries = -1, is_without;
static bis_handle handle;
static char stack[64 << 10];

static void ticks_on(int signal) {
  (void)signal;
  ticks++;
}

static void waited(int signal) {
  (void)signal;
  waiting++;
}

static void asks(int signal) {
  (void)signal;
  int local = 5;
  CHECK((char *)&local > stack && (char *)&local < stack + sizeof stack);
  int result = bis_checkpoint(&handle);
  is_without = result == -ENOSYS;
  tries = is_without ? 2 : result;
  CHECK(local++ == 5);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
  CHECK(sigaltstack(&alternative, NULL) == 0);
  on_signal(SIGALRM, ticks_on, SA_RESTART);
  on_signal(SIGUSR1, asks, SA_ONSTACK);
  on_signal(SIGUSR2, waited, 0);
  sigset_t later;
  sigemptyset(&later);
  sigaddset(&later, SIGUSR2);
  CHECK(sigprocmask(SIG_BLOCK, &later, NULL) == 0);
  struct itimerval every = {{0, 2000}, {0, 2000}};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  CHECK(raise(SIGUSR2) == 0 && waiting == 0);
  while (ticks < 5) usleep(1000);
  CHECK(raise(SIGUSR1) == 0);
  int before = ticks;
  while (ticks < before + 5) usleep(1000);
  printf("%d tries, %d ticks\n", tries, ticks);
  if (tries < 2) {
    CHECK(bis_rollback(handle, BIS_RETRY) != 0);
    return 1;
  }
  CHECK(waiting == 0);
  CHECK(sigprocmask(SIG_UNBLOCK, &later, NULL) == 0);
  CHECK(waiting == 1);
  return guest_ok();
}
