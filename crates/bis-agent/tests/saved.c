// hooks_saved, with areas of components that this processor need not have: what it leaves as it is, and what it fills in.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hooks.h"

enum { LEN = 8192, ROUNDS = 50000, LAST = 16 };
#define ENABLED 0x2e7ul // x87, SSE, AVX, AVX-512, protection keys

extern void hooks_saved(u64 *area);

struct answer {
  u32 leaf, subleaf, eax, ebx, ecx, edx;
};

static const u32 sizes[LAST + 1] = {[2] = 256, [5] = 64, [6] = 512, [7] = 1024, [9] = 8};
static const u32 aligned[LAST + 1] = {[6] = 1, [7] = 1};

static void map(u64 from, u64 len) {
  void *addr = (void *)(from & ~(PAGE - 1ul));
  void *got = mmap(addr, len + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != addr) {
    perror("mmap");
    exit(2);
  }
}

static void tell(u32 leaf, u32 subleaf, u32 eax, u32 ecx) {
  u32 *count = (u32 *)CPUID_BASE;
  ((struct answer *)(CPUID_BASE + 8))[(*count)++] = (struct answer){leaf, subleaf, eax, 0, ecx, 0};
}

static u64 at_random(u64 of) { return of & (u64)rand(); }

// The mask of MXCSR's bits, as the processor says it.
static u32 mxcsr_mask(void) {
  static _Alignas(16) u32 legacy[128];
  __asm__ volatile("fxsave %0" : "=m"(legacy));
  return legacy[7];
}

// What the area is to be afterwards.
static void fill(u8 *area, u64 saved, u64 used) {
  u64 missing = saved & ~used, strange = saved & ~ENABLED, known = 3, at = 576;
  if (missing & 1) {
    memset(area, 0, 24);
    memcpy(area, "\x7f\x03", 2);
    memset(area + 32, 0, 128);
  }
  if (missing & 2) {
    u32 mxcsr[2] = {0x1f80, mxcsr_mask()};
    memcpy(area + 24, mxcsr, 8);
    memset(area + 160, 0, 256);
  }
  for (int bit = 2; bit <= LAST; bit++) {
    if (!((saved & ENABLED) >> bit & 1) || (strange & ((1ul << bit) - 1))) continue;
    if (aligned[bit]) at = (at + 63) & ~63ul;
    if (missing >> bit & 1) memset(area + at, 0, sizes[bit]);
    at += sizes[bit];
    known |= 1ul << bit;
  }
  u64 mask = used | (saved & known);
  memcpy(area + 512, &mask, 8);
}

int main(void) {
  map(SCRATCH_BASE, PAGE);
  map(CPUID_BASE, PAGE);
  tell(0, -1, 0x10, 0);
  tell(7, 0, 1, 3);
  tell(0xd, 0, ENABLED, 2696);
  tell(0xd, 1, 0xf, 0);
  for (u32 bit = 2; bit <= LAST; bit++) tell(0xd, bit, sizes[bit], aligned[bit] ? 2 : 0);
  tell(0x80000000, -1, 1, 3);
  for (int round = 0; round < ROUNDS; round++) {
    static _Alignas(64) u8 area[LEN], wanted[LEN];
    for (int i = 0; i < LEN; i += 4) *(u32 *)(area + i) = (u32)rand();
    // Now and then, with one that nothing is known of.
    u64 saved = at_random(ENABLED) | (round % 7 ? 0 : 1ul << 4), used = at_random(saved);
    u64 header[8] = {used, saved | 1ul << 63};
    memcpy(area + 512, header, sizeof header);
    memcpy(wanted, area, LEN);
    fill(wanted, saved, used);
    hooks_saved((u64 *)area);
    for (int i = 0; i < LEN; i++) {
      if (area[i] == wanted[i]) continue;
      printf("byte %d is %#x, not %#x (saved %#lx, used %#lx)\n", i, area[i], wanted[i], saved, used);
      return 1;
    }
  }
  puts("ok");
  return 0;
}
