// rdtsc and rdtscp in long loops: more values than fit a log, the core in ecx, and calls of the clock between them; the
// counter goes up, and so does the clock.
#include "counter.h"

int main(void) {
  printf("mixed %lx\n", read_often(60000));

  uint64_t last = 0, mixed = 0;
  uint32_t aux, cores = 0;
  for (int i = 0; i < 60000; i++) {
    uint64_t now = rdtscp(&aux);
    CHECK(now > last);
    last = now;
    mixed = (mixed ^ now ^ aux) * 1099511628211ull;
    cores |= aux;
  }
  printf("mixed %lx, cores %x\n", mixed, cores);

  struct timeval day;
  struct timespec ts;
  int64_t ns_before = 0;
  for (int i = 0; i < 20000; i++) {
    uint64_t now = rdtsc();
    CHECK(now > last);
    CHECK(gettimeofday(&day, NULL) == 0);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
    last = rdtsc();
    CHECK(last > now);
    int64_t ns = ts.tv_sec * 1000000000ll + ts.tv_nsec;
    CHECK(ns >= ns_before && day.tv_usec < 1000000 && ts.tv_nsec < 1000000000);
    ns_before = ns;
    mixed = (mixed ^ last ^ ns ^ day.tv_usec) * 1099511628211ull;
  }
  printf("mixed %lx, %ld.%06ld\n", mixed, day.tv_sec, day.tv_usec);
  return guest_ok();
}
