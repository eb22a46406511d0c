// What the guests that read the time stamp counter share.
#ifndef COUNTER_H
#define COUNTER_H
#include "../guest.h"

#include <sys/prctl.h>
#include <sys/time.h>

static inline uint64_t rdtsc(void) {
  uint32_t lo, hi;
  __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
  return (uint64_t)hi << 32 | lo;
}

static inline uint64_t rdtscp(uint32_t *aux) {
  uint32_t lo, hi;
  __asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(*aux));
  return (uint64_t)hi << 32 | lo;
}

// Reads the counter so often; it goes up. Gives all values mixed into one.
static inline uint64_t read_often(int times) {
  uint64_t last = 0, mixed = 0;
  for (int i = 0; i < times; i++) {
    uint64_t now = rdtsc();
    CHECK(now > last);
    last = now;
    mixed = (mixed ^ now) * 1099511628211ull;
  }
  return mixed;
}
#endif
