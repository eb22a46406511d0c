// cflags: -m32
// needs: /usr/lib32/crt1.o
// Clocks agree with one another, by the C library and by calls of the kernel, and the counter of the
// processor goes forward.
#include "../guest.h"
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>

static uint64_t counter(void) {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}

int main(void) {
  struct timespec a, b, c;
  struct timeval day;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &a) == 0);
  CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b) == 0);
  CHECK(clock_gettime(CLOCK_MONOTONIC, &c) == 0);
  CHECK(b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec >= a.tv_nsec));
  CHECK(c.tv_sec > b.tv_sec || (c.tv_sec == b.tv_sec && c.tv_nsec >= b.tv_nsec));
  CHECK(clock_gettime(CLOCK_REALTIME, &a) == 0 && gettimeofday(&day, NULL) == 0);
  time_t now = time(NULL);
  CHECK(day.tv_sec - a.tv_sec <= 1 && now - a.tv_sec <= 1 && now > 1600000000);
  long long wide[2] = {0, -1};
  CHECK(syscall(SYS_clock_gettime64, CLOCK_REALTIME, wide) == 0);
  CHECK(wide[0] - a.tv_sec <= 1 && wide[1] >= 0 && wide[1] < 1000000000);
  CHECK(clock_getres(CLOCK_MONOTONIC, &c) == 0 && c.tv_sec == 0 && c.tv_nsec > 0);
  uint64_t last = counter();
  for (int i = 0; i < 100; i++) {
    uint64_t next = counter();
    CHECK(next >= last);
    last = next;
  }
  struct tms spent;
  CHECK(times(&spent) != (clock_t)-1 && spent.tms_cutime == 0);
  CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &c) == 0 && c.tv_sec < 10);
  struct sysinfo info;
  CHECK(sysinfo(&info) == 0 && info.totalram > 0 && info.mem_unit > 0 && info.uptime > 0);
  struct utsname name;
  CHECK(uname(&name) == 0 && strcmp(name.sysname, "Linux") == 0);
  puts("clocks agree");
  return guest_ok();
}
