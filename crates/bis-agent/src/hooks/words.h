// Words without jumps: of a choice that replay does not make alike, no branch may depend.
#pragma once

#include "hooks.h"

#define ALIGN8(n) (((n) + 7) & ~7ul)

// `a` in replay, else `b`.
static inline u64 pick(u64 a, u64 b) {
  u64 replay = S->replay;
  __asm__("" : "+r"(replay));
  return (a & replay) | (b & ~replay);
}

// 1 if n is not 0, without a jump.
static inline u64 is(u64 n) {
  return (n | -n) >> 63;
}

static inline u64 below(u64 a, u64 b) {
  u64 r;
  __asm__("xor %k0, %k0; cmp %2, %1; setb %b0" : "=&q"(r) : "r"(a), "r"(b) : "cc");
  return r;
}

static inline u64 least(u64 a, u64 b) {
  return a < b ? a : b;
}
