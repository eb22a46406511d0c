// timerfd: relative and absolute, intervals, counts of missed ones, poll, nonblocking, disarm.
#include "../guest.h"
#include <poll.h>
#include <sys/timerfd.h>

int main(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  uint64_t n = 0;
  CHECK(fd >= 0);
  CHECK_ERRNO(read(fd, &n, 8), EAGAIN);
  struct itimerspec t = {{0, 2000000}, {0, 2000000}}, now;
  CHECK(timerfd_settime(fd, 0, &t, NULL) == 0);
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLIN);
  sleep_ms(11);
  CHECK(read(fd, &n, 8) == 8 && n >= 5);
  CHECK(timerfd_gettime(fd, &now) == 0 && now.it_interval.tv_nsec == 2000000);
  t = (struct itimerspec){{0, 0}, {0, 0}};
  CHECK(timerfd_settime(fd, 0, &t, &now) == 0 && now.it_interval.tv_nsec == 2000000);
  int block = timerfd_create(CLOCK_REALTIME, 0);
  struct timespec at;
  CHECK(clock_gettime(CLOCK_REALTIME, &at) == 0);
  at.tv_nsec += 15000000;
  if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
  t.it_value = at;
  CHECK(timerfd_settime(block, TFD_TIMER_ABSTIME, &t, NULL) == 0);
  uint64_t one;
  CHECK(read(block, &one, 8) == 8 && one == 1);
  CHECK_ERRNO(read(block, &one, 4), EINVAL);
  printf("%lu ticks\n", n);
  return guest_ok();
}
