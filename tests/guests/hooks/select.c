// select, pselect6, poll, ppoll, epoll_pwait2: sets of all sizes, what is left of the time, handlers that interrupt them.
#include "rounds.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

static void *volatile nowhere = (void *)8;
static volatile sig_atomic_t caught;
static void on_alarm(int sig) { caught = sig; }

// Again and again, until 0: the first may come before the call that it is to interrupt.
static void alarm_each(int ms) {
  struct itimerval t = {{0, ms * 1000}, {0, ms * 1000}};
  if (ms > 0) caught = 0;
  CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

static void check(int round) {
  int p[2], high = 300;
  fd_set r, w;
  CHECK(pipe(p) == 0 && dup2(p[0], high) == high);
  struct timeval none = {0, 0}, long_time = {5, 0}, short_time = {0, 3000};
  FD_ZERO(&r); FD_ZERO(&w); FD_SET(p[0], &r), FD_SET(p[1], &w), FD_SET(high, &r);
  CHECK(select(high + 1, &r, &w, NULL, &none) == 1 && !FD_ISSET(p[0], &r) && !FD_ISSET(high, &r) && FD_ISSET(p[1], &w));
  FD_ZERO(&r); FD_SET(p[0], &r), FD_SET(high, &r);
  CHECK(select(high + 1, &r, NULL, NULL, &short_time) == 0 && !FD_ISSET(high, &r) && short_time.tv_usec == 0);
  CHECK(write(p[1], "x", 1) == 1);
  FD_SET(p[0], &r), FD_SET(high, &r);
  FD_ZERO(&w);
  CHECK(select(high + 1, &r, &w, NULL, &long_time) == 2 && FD_ISSET(p[0], &r) && FD_ISSET(high, &r));
  CHECK(long_time.tv_sec == 4 || (long_time.tv_sec == 5 && long_time.tv_usec == 0));
  // Only those below the count are looked at, and the words beyond are left alone.
  memset(&r, 0xff, sizeof r);
  CHECK(select(0, &r, NULL, NULL, &none) == 0 && FD_ISSET(high, &r));
  FD_ZERO(&r); FD_SET(p[0], &r);
  struct timespec time = {5, 1}, zero = {0, 0};
  CHECK(pselect(p[0] + 1, &r, NULL, NULL, &time, NULL) == 1 && time.tv_sec == 5 && time.tv_nsec == 1);
  sigset_t mask;
  CHECK(sigemptyset(&mask) == 0 && pselect(p[0] + 1, &r, NULL, NULL, &zero, &mask) == 1);
  CHECK_ERRNO(select(-1, NULL, NULL, NULL, &none), EINVAL);
  CHECK_ERRNO(select(1, nowhere, NULL, NULL, &none), EFAULT);
  CHECK_ERRNO(select(0, NULL, NULL, NULL, &(struct timeval){-1, 0}), EINVAL);
  FD_ZERO(&r); FD_SET(high - 1, &r);
  CHECK_ERRNO(select(high, &r, NULL, NULL, &none), EBADF);

  struct pollfd f[3] = {{p[0], POLLIN, 0x7f}, {-1, POLLIN, 0x7f}, {900, POLLIN, 0x7f}};
  time = (struct timespec){7, 5};
  CHECK(ppoll(f, 3, &time, NULL) == 2 && f[0].revents == POLLIN && f[1].revents == 0 && f[2].revents == POLLNVAL);
  CHECK(poll(f, 1, 1000) == 1 && poll(f + 1, 1, 2) == 0 && poll(NULL, 0, 0) == 0);
  CHECK(ppoll(f, 2, &zero, &mask) == 1 && ppoll(f + 1, 1, &(struct timespec){0, 2000000}, NULL) == 0);
  CHECK_ERRNO(ppoll(nowhere, 1, &zero, NULL), EFAULT);
  CHECK_ERRNO(ppoll(f, 1, &(struct timespec){0, -1}, NULL), EINVAL);

  struct epoll_event ev = {EPOLLIN, {.u64 = 42}}, got[4];
  int e = epoll_create1(EPOLL_CLOEXEC);
  CHECK(e >= 0 && epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev) == 0);
  time = (struct timespec){7, 5};
  CHECK(syscall(SYS_epoll_pwait2, e, got, 4, &time, NULL, 0) == 1 && got[0].data.u64 == 42);
  CHECK(syscall(SYS_epoll_pwait2, e, got, 4, NULL, NULL, 0) == 1);
  char c;
  CHECK(read(p[0], &c, 1) == 1 && syscall(SYS_epoll_pwait2, e, got, 4, &zero, NULL, 0) == 0);
  CHECK(syscall(SYS_epoll_pwait2, e, got, 4, &(struct timespec){0, 2000000}, NULL, 0) == 0);

  // Interrupted, with something left of the time.
  FD_ZERO(&r); FD_SET(p[0], &r);
  long_time = (struct timeval){5, 0};
  alarm_each(3);
  CHECK_ERRNO(select(p[0] + 1, &r, NULL, NULL, &long_time), EINTR);
  alarm_each(0);
  CHECK(caught == SIGALRM && FD_ISSET(p[0], &r) && long_time.tv_sec == 4);
  alarm_each(3);
  f[0].revents = 0;
  CHECK_ERRNO(ppoll(f, 1, NULL, NULL), EINTR);
  alarm_each(0);
  CHECK(caught == SIGALRM && f[0].revents == 0);
  alarm_each(3);
  CHECK_ERRNO(syscall(SYS_epoll_pwait2, e, got, 4, &(struct timespec){5, 0}, NULL, 0), EINTR);
  alarm_each(0);
  CHECK(close(p[0]) == 0 && close(p[1]) == 0 && close(high) == 0 && close(e) == 0);
  printf("round %d: %ld microseconds left\n", round, (long)long_time.tv_usec);
}

int main(void) {
  on_signal(SIGALRM, on_alarm, 0);
  rounds(check);
  return guest_ok();
}
