// What signals do, which are blocked, the stack of handlers and the interval timers are as they were; and a handler may
// go back to before the signal that it handles.
#include "checkpoints.h"
#include <sys/time.h>

static bis_handle handle;
static volatile int first_ran, second_ran, *outside;
static char stack[64 << 10];

static void first(int sig) {
  (void)sig;
  first_ran++;
  if (outside[0]++ < 2) bis_rollback(handle, BIS_RETRY);
}

static void second(int sig) {
  (void)sig;
  second_ran++;
}

int main(void) {
  needs_bis();
  outside = stays();
  stack_t on = {.ss_sp = stack, .ss_size = sizeof stack}, off = {.ss_flags = SS_DISABLE}, now;
  CHECK(sigaltstack(&on, NULL) == 0);
  struct sigaction action = {.sa_handler = first, .sa_flags = SA_ONSTACK}, found;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  // A program that nohup has started begins with another one.
  CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR && signal(SIGHUP, SIG_DFL) != SIG_ERR);
  sigset_t blocked, mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGWINCH);
  CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
  struct itimerval hour = {{0, 0}, {3600, 0}}, none = {0}, left;
  CHECK(setitimer(ITIMER_REAL, &hour, NULL) == 0);

  int times = bis_checkpoint(&handle);
  CHECK(times >= 0);
  CHECK(sigaction(SIGUSR1, NULL, &found) == 0 && found.sa_handler == first && found.sa_flags & SA_ONSTACK);
  CHECK(sigaction(SIGUSR2, NULL, &found) == 0 && found.sa_handler == SIG_IGN);
  CHECK(sigaction(SIGHUP, NULL, &found) == 0 && found.sa_handler == SIG_DFL);
  CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0);
  CHECK(sigismember(&mask, SIGWINCH) && !sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGCHLD));
  CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack && !(now.ss_flags & SS_ONSTACK));
  CHECK(getitimer(ITIMER_REAL, &left) == 0 && left.it_value.tv_sec >= 3590 && left.it_interval.tv_sec == 0);
  CHECK(getitimer(ITIMER_PROF, &left) == 0 && left.it_value.tv_sec == 0);
  CHECK(first_ran == 0 && second_ran == 0);
  printf("%d\n", times);

  // Out of a handler, on the handlers' stack: the signal is not blocked any more then.
  if (outside[0] < 3) CHECK(kill(getpid(), SIGUSR1) == 0);
  CHECK(first_ran == (outside[0] == 3));
  CHECK(signal(SIGUSR1, second) == first && signal(SIGUSR2, second) == SIG_IGN && signal(SIGHUP, second) == SIG_DFL);
  CHECK(sigprocmask(SIG_UNBLOCK, &blocked, NULL) == 0);
  CHECK(sigaltstack(&off, NULL) == 0);
  struct itimerval soon = {{7, 0}, {9, 0}};
  CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0 && setitimer(ITIMER_PROF, &soon, NULL) == 0);
  CHECK(raise(SIGUSR2) == 0 && second_ran == 1);
  if (times == 2) {
    outside[0] = 9;
    CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  }
  CHECK(times == 3);
  return guest_ok();
}
