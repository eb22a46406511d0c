// sigwait, sigwaitinfo, sigtimedwait: pending ones at once, later ones after a wait, timeouts.
#include "../guest.h"

int main(void) {
  sigset_t set;
  siginfo_t info;
  int sig;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN + 3), sigaddset(&set, SIGCHLD);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  CHECK(raise(SIGUSR1) == 0 && sigwait(&set, &sig) == 0 && sig == SIGUSR1);
  struct timespec zero = {0, 0}, some = {0, 10000000};
  CHECK_ERRNO(sigtimedwait(&set, &info, &zero), EAGAIN);
  CHECK_ERRNO(sigtimedwait(&set, &info, &some), EAGAIN);
  CHECK(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 42}) == 0);
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3 && info.si_value.sival_int == 42 && info.si_code == SI_QUEUE);
  pid_t p = fork();
  if (p == 0) {
    sleep_ms(20);
    _exit(31);
  }
  CHECK(sigwaitinfo(&set, &info) == SIGCHLD && info.si_pid == p && info.si_code == CLD_EXITED && info.si_status == 31);
  check_exited(p, 31);
  printf("%d told us\n", info.si_pid);
  return guest_ok();
}
