// What xsavec writes depends on which registers the processor thinks are in use, and that on when the kernel has last saved
// them. The dynamic linker leaves it on the stack, from where it comes into structures of which not all is given.
// hooked: nothing makes the instruction fault, so only text that is patched is recorded
#include "../guest.h"
#include <cpuid.h>

enum { SIZE = 4096, TIMES = 3000, HEADER = 512 / 8 };
static _Alignas(64) uint64_t area[SIZE / 8], before[SIZE / 8];

static int has_xsavec(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) && __get_cpuid_count(13, 1, &a, &b, &c, &d) && (a & 2);
}

// No register and no flag changes but for the carry that is taken.
#define SAVE(name, insn, reg, at)                                                                                            \
  __attribute__((noinline)) static void name(uint64_t mask) {                                                                \
    register uint64_t r reg = (uint64_t)(at), eight = 8, low = mask;                                                         \
    unsigned char carry;                                                                                                     \
    __asm__ volatile("stc; " insn "; setc %0"                                                                                \
                     : "=r"(carry), "+r"(r), "+r"(eight), "+a"(low)                                                          \
                     : "d"(mask >> 32)                                                                                       \
                     : "memory", "cc");                                                                                      \
    CHECK(carry && r == (uint64_t)(at) && eight == 8 && low == mask);                                                        \
  }
SAVE(by_rcx, "xsavec (%1); nop; nop", __asm__("rcx"), area)
SAVE(by_name, "xsavec area(%%rip)", , area)
SAVE(by_index, "xsavec64 -64(%1,%2,8)", __asm__("r9"), area)
SAVE(by_r12, "xsavec 0x40(%1)", __asm__("r12"), area - 8)

static void load(uint64_t mask) {
  __asm__ volatile("xrstor area(%%rip)" : : "a"((unsigned)mask), "d"((unsigned)(mask >> 32)) : "memory");
}

static uint64_t sum(void) {
  uint64_t h = 14695981039346656037ull;
  for (int i = 0; i < SIZE / 8; i++) h = (h ^ area[i]) * 1099511628211ull;
  return h;
}

int main(void) {
  if (!has_xsavec()) return guest_ok();
  void (*const forms[])(uint64_t) = {by_rcx, by_name, by_index, by_r12};
  uint64_t sums[4] = {0}, in_use = 0;
  for (int i = 0; i < TIMES; i++) {
    uint64_t mask = i & 4 ? 0xee : i & 8 ? 0x7 : 0x2;
    memset(area, 0xa5, SIZE);
    memset(area + HEADER, 0, 64);
    if (i % 100 == 0) getppid();
    // Zeros, and what is not zero.
    if (i & 16)
      __asm__ volatile("pxor %%xmm0, %%xmm0" : : : "xmm0");
    else if (i & 32)
      __asm__ volatile("pcmpeqd %%xmm7, %%xmm7" : : : "xmm7");
    else if (i & 64)
      __asm__ volatile("fld1; fstp %%st(0)" : : : "st");
    forms[i & 3](mask);
    CHECK(area[HEADER + 1] >> 63 && !(area[HEADER] & ~area[HEADER + 1]));
    in_use += area[HEADER];
    sums[i & 3] += sum();
    // Loaded back, and saved again, the vector registers are the same.
    memcpy(before, area, SIZE);
    load(mask);
    by_name(mask);
    CHECK(!(before[HEADER] & 2) || !memcmp(before + 20, area + 20, 256));
  }
  printf("%lx %lx %lx %lx %lx\n", in_use, sums[0], sums[1], sums[2], sums[3]);
  return guest_ok();
}
