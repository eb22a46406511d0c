// sigsuspend, pause, ppoll and pselect: the mask in force while waiting, and the old one after.
#include "../guest.h"
#include <poll.h>
#include <sys/select.h>

static volatile int got;
static void handler(int sig) {
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  CHECK(sigismember(&now, SIGUSR1));
  got = sig;
}

int main(void) {
  sigset_t block, old, wait_mask, now;
  on_signal(SIGUSR1, handler, 0);
  sigemptyset(&block);
  sigaddset(&block, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &block, &old) == 0);
  wait_mask = old;
  CHECK(raise(SIGUSR1) == 0 && got == 0);
  CHECK_ERRNO(sigsuspend(&wait_mask), EINTR);
  CHECK(got == SIGUSR1);
  got = 0;
  CHECK(raise(SIGUSR1) == 0);
  struct timespec t = {5, 0};
  CHECK_ERRNO(ppoll(NULL, 0, &t, &wait_mask), EINTR);
  CHECK(got == SIGUSR1);
  got = 0;
  CHECK(raise(SIGUSR1) == 0);
  CHECK_ERRNO(pselect(0, NULL, NULL, NULL, &t, &wait_mask), EINTR);
  CHECK(got == SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
  // From another process, while really waiting.
  got = 0;
  pid_t me = getpid(), p = fork();
  if (p == 0) {
    sleep_ms(20);
    kill(me, SIGUSR1);
    _exit(0);
  }
  CHECK_ERRNO(sigsuspend(&wait_mask), EINTR);
  CHECK(got == SIGUSR1);
  check_exited(p, 0);
  printf("from %d\n", p);
  return guest_ok();
}
