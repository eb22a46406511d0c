// steps:
// rdtsc and rdtscp: they go up, in one thread and from several; the values and the core are printed. Where the processor
// has no rdtscp, that is an illegal instruction.
#include "../guest.h"

#include <cpuid.h>
#include <setjmp.h>

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

static sigjmp_buf back;

static void on_illegal(int sig) {
  (void)sig;
  siglongjmp(back, 1);
}

static bool has_rdtscp(void) {
  unsigned a, b, c, d = 0;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) && d >> 27 & 1;
}

static uint64_t rdtscp_or_illegal(uint32_t *aux) {
  if (has_rdtscp()) return rdtscp(aux);
  signal(SIGILL, on_illegal);
  if (sigsetjmp(back, 1) == 0) {
    rdtscp(aux);
    CHECK(!"rdtscp was executed");
  }
  return rdtsc();
}

int main(void) {
  uint32_t aux = 0;
  uint64_t a = rdtsc(), b = rdtscp_or_illegal(&aux), c = rdtsc();
  CHECK(a < b && b < c);
  uint64_t sum = (uint64_t)body(&c);
  void *in_thread = join_thread(start_thread(body, &c));
  printf("%lu %lu %lu, core %u, %lu %lu\n", a, b, c, aux & 0xfff, sum, (uint64_t)in_thread);
  return guest_ok();
}
