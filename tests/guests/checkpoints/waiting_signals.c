// Signals that wait in the kernel at a checkpoint, blocked, and are taken since, wait again after the way back, with what they
// say: the process's and a thread's own. So do interval timers whose signal has come and was not taken.
#include "checkpoints.h"
#include <sys/time.h>

static volatile int taken[3], value, alarms;

static void takes(int signal, siginfo_t *info, void *context) {
  (void)context;
  int which = signal == SIGUSR1 ? 0 : signal == SIGUSR2 ? 1 : 2;
  taken[which]++;
  if (which == 2) value = info->si_value.sival_int;
}

static void alarm_comes(int signal) {
  (void)signal;
  alarms++;
}

int main(void) {
  needs_bis();
  int all[] = {SIGUSR1, SIGUSR2, SIGRTMIN};
  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (int i = 0; i < 3; i++) {
    on_siginfo(all[i], takes, 0);
    sigaddset(&blocked, all[i]);
  }
  on_signal(SIGALRM, alarm_comes, 0);
  sigaddset(&blocked, SIGALRM);
  CHECK(sigprocmask(SIG_BLOCK, &blocked, &before) == 0);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  CHECK(syscall(SYS_tgkill, getpid(), tid_self(), SIGUSR2) == 0);
  union sigval says = {.sival_int = 42};
  CHECK(sigqueue(getpid(), SIGRTMIN, says) == 0);
  struct itimerval every = {{0, 3000}, {0, 1000}};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  sigset_t pending;
  do CHECK(sigpending(&pending) == 0);
  while (!sigismember(&pending, SIGALRM));

  bis_handle handle = 0;
  int result = bis_checkpoint(&handle);
  CHECK(result >= 0);
  for (int i = 0; i < 3; i++) CHECK(taken[i] == 0);
  CHECK(sigpending(&pending) == 0);
  for (int i = 0; i < 3; i++) CHECK(sigismember(&pending, all[i]));
  CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
  for (int i = 0; i < 3; i++) CHECK(taken[i] == 1);
  CHECK(value == 42);
  value = 0;
  while (alarms < 4) usleep(500);
  printf("%d\n", result);
  if (result < 3) {
    CHECK(bis_rollback(handle, BIS_RETRY) != 0);
    return 1;
  }
  return guest_ok();
}
