// What the guests share that ask the processor for numbers without asking cpuid first.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf no_such_instruction;
static void on_ill(int sig) { siglongjmp(no_such_instruction, sig); }

// Does the processor have what this function executes? cpuid may not tell.
static inline bool works(void (*f)(void)) {
  on_signal(SIGILL, on_ill, SA_NODEFER);
  bool there = sigsetjmp(no_such_instruction, 1) == 0;
  if (there) f();
  signal(SIGILL, SIG_DFL);
  return there;
}

static inline uint64_t rdrand64(void) {
  uint64_t v;
  __asm__ volatile("1: rdrand %0\njnc 1b" : "=r"(v) : : "cc");
  return v;
}

static inline uint64_t rdseed64(void) {
  uint64_t v;
  __asm__ volatile("1: rdseed %0\njc 2f\npause\njmp 1b\n2:" : "=r"(v) : : "cc");
  return v;
}

static inline uint64_t rdpid(void) {
  uint64_t v;
  __asm__ volatile("rdpid %0\nnop\nnop" : "=r"(v));
  return v;
}
