// A counter of perf in software: it counts, or it is refused as where the kernel has none or does not let everybody
// (ENOSYS, ENOENT, EACCES, EPERM), and the program measures by the clock.
#include "../guest.h"

#include <linux/perf_event.h>

int main(void) {
  struct perf_event_attr attr = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1};
  int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
  CHECK(fd >= 0 || errno == ENOSYS || errno == ENOENT || errno == EACCES || errno == EPERM);
  struct timespec from, to;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  for (volatile int i = 0; i < 1000000; i++) {}
  uint64_t count = 0;
  if (fd >= 0) {
    CHECK(read(fd, &count, 8) == 8);
  } else {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    count = (to.tv_sec - from.tv_sec) * 1000000000ull + to.tv_nsec - from.tv_nsec;
  }
  CHECK(count > 0);
  printf("%d: %lu ns\n", fd, count);
  return guest_ok();
}
