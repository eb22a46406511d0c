// nanosleep, clock_nanosleep (relative, absolute), usleep, select and poll as sleeps: none returns early.
#include "../guest.h"
#include <poll.h>
#include <sys/select.h>
#include <sys/time.h>

int main(void) {
  int64_t t[7] = {now_ns()};
  struct timespec ms5 = {0, 5000000};
  CHECK(nanosleep(&ms5, NULL) == 0);
  t[1] = now_ns();
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &ms5, NULL) == 0);
  t[2] = now_ns();
  int64_t target = t[2] + 5000000;
  struct timespec abs = {target / 1000000000, target % 1000000000};
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &abs, NULL) == 0);
  t[3] = now_ns();
  CHECK(usleep(5000) == 0);
  t[4] = now_ns();
  struct timeval tv = {0, 5000};
  CHECK(select(0, NULL, NULL, NULL, &tv) == 0 && tv.tv_usec == 0);
  t[5] = now_ns();
  CHECK(poll(NULL, 0, 5) == 0);
  t[6] = now_ns();
  for (int i = 1; i < 7; i++) CHECK(t[i] - t[i - 1] >= 5000000);
  struct timespec bad = {0, 1000000000};
  CHECK_ERRNO(nanosleep(&bad, NULL), EINVAL);
  CHECK(clock_nanosleep(999, 0, &ms5, NULL) == EINVAL);
  for (int i = 1; i < 7; i++) printf("%ld ", (long)(t[i] - t[i - 1]));
  puts("ns");
  return guest_ok();
}
