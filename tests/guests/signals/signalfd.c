// signalfd: signals as records to read, with values; nonblocking; together with poll.
#include "../guest.h"
#include <poll.h>
#include <sys/signalfd.h>

int main(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN), sigaddset(&set, SIGCHLD);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  struct signalfd_siginfo info[4];
  CHECK(fd >= 0);
  CHECK_ERRNO(read(fd, info, sizeof info), EAGAIN);
  CHECK(raise(SIGUSR1) == 0);
  for (int i = 0; i < 2; i++) CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 100 + i}) == 0);
  CHECK(read(fd, info, sizeof info) == 3 * sizeof info[0]);
  CHECK(info[0].ssi_signo == SIGUSR1 && info[1].ssi_signo == (uint32_t)SIGRTMIN && info[2].ssi_int == 101);
  pid_t p = fork();
  if (p == 0) _exit(12);
  struct pollfd pfd = {fd, POLLIN, 0};
  CHECK(poll(&pfd, 1, 5000) == 1 && pfd.revents == POLLIN);
  CHECK(read(fd, info, sizeof info) == sizeof info[0]);
  CHECK(info[0].ssi_signo == SIGCHLD && info[0].ssi_pid == (uint32_t)p && info[0].ssi_status == 12);
  check_exited(p, 12);
  printf("child %u used %lu ticks\n", info[0].ssi_pid, info[0].ssi_utime);
  return guest_ok();
}
