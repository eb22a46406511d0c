// steps:
// rdtsc and rdtscp: they go up, in one thread and from several; the values and the core are printed.
#include "../guest.h"

static uint64_t rdtsc(void) {
  uint32_t lo, hi;
  __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
  return (uint64_t)hi << 32 | lo;
}

static uint64_t rdtscp(uint32_t *aux) {
  uint32_t lo, hi;
  __asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(*aux));
  return (uint64_t)hi << 32 | lo;
}

static void *body(void *arg) {
  uint64_t last = *(uint64_t *)arg, sum = 0;
  for (int i = 0; i < 50; i++) {
    uint64_t t = rdtsc();
    CHECK(t > last);
    sum += t - last;
    last = t;
  }
  return (void *)sum;
}

int main(void) {
  uint32_t aux;
  uint64_t a = rdtsc(), b = rdtscp(&aux), c = rdtsc();
  CHECK(a < b && b < c);
  uint64_t sum = (uint64_t)body(&c);
  void *in_thread = join_thread(start_thread(body, &c));
  printf("%lu %lu %lu, core %u, %lu %lu\n", a, b, c, aux & 0xfff, sum, (uint64_t)in_thread);
  return guest_ok();
}
