// The log: an entry for each call, which replay finds there before its hook makes it. And the ends of a hook.
#pragma once

#include "words.h"

// Products and sums that do not wait for each other.
static inline u64 hash(u64 nr, const u64 *a) {
  u64 h = (a[0] * 0xff51afd7ed558ccdul + a[1] * 0xc4ceb9fe1a85ec53ul) + (a[2] * 0xbf58476d1ce4e5b9ul + a[3] * 0x94d049bb133111ebul);
  u64 g = (a[4] * 0xd6e8feb86659fd93ul + a[5] * 0xe7037ed1a0b428dbul) + nr * 0x9e3779b97f4a7c15ul;
  __asm__("" : "+r"(g), "+r"(h));
  h += g;
  return h ^ h >> 32;
}

static inline struct entry *next_entry(void) {
  return (struct entry *)(LOG_BASE + S->pos);
}

// Begins the entry, and checks in replay that it is the one of this call.
static inline struct entry *begin(u64 nr, u64 check) {
  struct entry *e = next_entry();
  u64 head = pick(e->head, nr);
  u64 same = pick(e->check, (u32)check);
  if ((head & CALL) != nr || same != (u32)check) hooks_diverged();
  e->head = head;
  e->check = same;
  return e;
}

static inline void finish(struct entry *e, u64 len, u64 flags) {
  e->head = (e->head & (CALL | ASKED)) | flags | len << (EIGHTS - 3);
  S->pos += len;
}

// Has the program's own filter a say in this call? (nr < CALLS)
static inline u64 is_judged(u64 nr) {
  return S->judged[nr / 64] >> (nr % 64) & 1;
}

// The end of a hook: the words that concern one hook only.
static inline void end_hook(void) {
  S->exit_stop = 0;
  S->bail = 0;
  S->phase = 0;
  S->writing = 0;
  S->lingers = 0;
}

// The call has been made. 1: it is to stop at the safepoint.
static inline u64 leave_soon(u64 replay, u64 pos) {
  u64 at_end = S->end_stop & (pos == S->end), exit_stop = S->exit_stop | below(S->soon, pos);
  end_hook();
  return (at_end & replay) | (exit_stop & ~replay);
}

// As `leave_soon`, where a call more or less does not matter.
u64 hooks_leave(void);
// The call is to be made by the trampoline's own system call instruction, which lies right before `done`.
u64 hooks_leave_traced(void);

// How a call is left for a traced one that was begun here. What led to it is the same in replay: `result` stays as it was found.
enum leaving {
  STAYS,   // it is not left: it is made here
  EARLY,   // before all that was to be asked has been answered
  WAITING, // the same, and it is known that it waits: its supervisor need not see whether it comes back at once
  LATELY,  // when all has been answered
};
u64 hooks_leave_marked(struct entry *e, enum leaving how);
