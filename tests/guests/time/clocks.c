// clock_gettime of every clock, getres, gettimeofday, time, by libc (vdso) and by raw calls: they agree and never go back.
#include "../guest.h"
#include <sys/time.h>

static int64_t ns(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }

int main(void) {
  for (clockid_t c = 0; c <= 11; c++) {
    struct timespec a, b, r;
    if (c == 10 || clock_gettime(c, &a) != 0) continue;
    CHECK(syscall(SYS_clock_gettime, c, &b) == 0);
    CHECK(clock_getres(c, &r) == 0 && ns(r) > 0);
    printf("clock %d: %ld, then %ld, resolution %ld\n", c, (long)ns(a), (long)ns(b), (long)ns(r));
    if (c != CLOCK_REALTIME_COARSE && c != CLOCK_MONOTONIC_COARSE) CHECK(ns(b) >= ns(a));
  }
  struct timeval v;
  struct timespec t;
  CHECK(gettimeofday(&v, NULL) == 0 && clock_gettime(CLOCK_REALTIME, &t) == 0);
  CHECK(t.tv_sec - v.tv_sec >= 0 && t.tv_sec - v.tv_sec <= 5);
  time_t s = time(NULL), s2;
  CHECK(s - v.tv_sec >= -1 && s - v.tv_sec <= 5 && time(&s2) == s2);
  int64_t last = 0;
  for (int i = 0; i < 2000; i++) {
    int64_t n = now_ns();
    CHECK(n >= last);
    last = n;
  }
  clockid_t cpu;
  CHECK(clock_getcpuclockid(getpid(), &cpu) == 0 && clock_gettime(cpu, &t) == 0);
  CHECK_ERRNO(clock_gettime(4242, &t), EINVAL);
  printf("%ld %ld.%06ld, %ld ns of cpu, clock() %ld\n", (long)s, (long)v.tv_sec, (long)v.tv_usec, (long)ns(t), clock());
  return guest_ok();
}
