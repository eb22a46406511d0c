// What the hooks' parts share among themselves: words without jumps, the plan of a call, and the instructions of
// `entry.S`.
#pragma once

#include "hooks.h"

extern i64 hooks_make(const u64 *args, u64 nr);
extern u64 hooks_copy(void *to, const void *from, u64 len);
extern u64 hooks_touch(void *at, u64 len);
extern u64 hooks_put(void *to, u64 first, u64 second);
extern void hooks_safepoint(void);
extern void hooks_safepoint_whole(void);
extern void hooks_diverged(void) __attribute__((noreturn));

#define ALIGN8(n) (((n) + 7) & ~7ul)
#define CAP_MAX 0x80000ul
#define INOUT_MAX 0x3000ul
// No supervisor wants reads of less.
#define CLONE_LEAST 0x10000ul
#define PIECES 4
// Waits with a limit above this are not for hooks: a task that is looked after (after 200 ms, `watch.rs`) makes its call
// again, with all of its time.
#define WAIT_MS_MAX 150

// What a pipe takes whole if it takes anything, bytes; and how much is copied between files without a look at others.
#define PIPE_BUF 4096
#define COPY_MAX (1 << 17)

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

// What a call of this row comes to: its pieces of memory in the log.
struct plan {
  const struct row *row;
  u64 nr;
  u64 args[6];
  u64 user[PIECES]; // where the program wants a piece; 0: it does not
  u64 cap[PIECES];
  u64 place[PIECES];
  struct piece piece[PIECES];
  u64 pieces;
  u64 head;    // bytes of the entry before the piece whose length is the result
  u64 patient; // it may wait for what it asks
  u64 finite;  // not for ever, but so long that its supervisor would look after it
  u64 refused; // as things are now, which replay does not know: no jump may depend on it
  u64 vectors; // how many there are at VECTORS
  u64 many;    // several messages: where the program has their headers
  u64 room;    // several messages: bytes that the kernel's part of the entry takes
  u64 took;    // messages or vectors: bytes of the entry behind `head`
  u64 asks;    // it may only be made if the descriptor has O_NONBLOCK
  u64 writes;  // it matters what the descriptor `target` is, because it is written to
  u64 target;
};

// What of a call depends on what is asked (`shapes.c`). 0: it cannot be made here.
u64 hooks_shape(struct plan *p);
// A message or vectors: once the pieces have their places.
void hooks_link(struct plan *p);
// The results of such a call go to the program: 0, or 1 where memory is not there.
u64 hooks_scatter(struct plan *p, i64 result);
// Is this file one that somebody has mapped? Recording only: in replay, it says nothing.
static inline u64 is_mapped(u64 dev, u64 ino) {
  u64 bit = (ino * 0x9e3779b97f4a7c15ul ^ dev * 0xc4ceb9fe1a85ec53ul) >> 51;
  return FILES[bit / 64] >> (bit % 64) & 1 & is(S->watched);
}

// The call is to find out without waiting.
void hooks_hurry(struct plan *p);
// May what is written here be more than is taken at once by what can take anything (pipe(7), poll)? While others wait, such a call
// may be asked to stop in its middle, and would have written less than the program wanted.
u64 hooks_is_long(const struct plan *p);
