// The time stamp counter in a program that makes code at run time: the instructions of its files are told what it is without
// a stop, that of the code it has made faults. They agree with each other, and never go back.
// unstopped: rdtsc rdtscp
#include "../guest.h"
#include <x86intrin.h>

enum { TIMES = 300, MANY = 40 };

typedef unsigned long counter_fn(void);

// rdtsc; shl $32, %rdx; or %rdx, %rax; ret
static const unsigned char code[] = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};

int main(void) {
  unsigned long last = __rdtsc();
  counter_fn *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(made != MAP_FAILED);
  memcpy((void *)made, code, sizeof code);
  for (int i = 0; i < TIMES; i++) {
    // What was found of it holds for some time.
    if (i % 100 == 99) usleep(20000);
    unsigned long at = made();
    CHECK(at > last);
    last = at;
    for (int j = 0; j < MANY; j++) {
      unsigned core, node, is_core, is_node;
      at = j & 1 ? __rdtscp(&core) : __rdtsc();
      CHECK(at > last);
      last = at;
      if (i % 50 == 0 && j == 1) {
        // It may be moved to another core in between.
        for (int tries = 0; tries < 1000; tries++) {
          CHECK(getcpu(&is_core, &is_node) == 0);
          __rdtscp(&core);
          node = core >> 12, core &= 0xfff;
          if (core == is_core && node == is_node) break;
          CHECK(tries < 999);
        }
      }
    }
  }
  return guest_ok();
}
