// A call on its way through the general hook (`general.c`): what it wants of memory, and what is known of it.
#pragma once

#include "log.h"

#define CAP_MAX 0x80000ul
#define INOUT_MAX 0x3000ul
#define PIECES 4

// How much is copied between files without a look at others, bytes.
#define COPY_MAX (1 << 17)

// MSG_*, which the kernel's headers for programs do not have.
enum { MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40, MSG_WAITALL = 0x100, MSG_ERRQUEUE = 0x2000, MSG_WAITFORONE = 0x10000 };

// Flags of rows whose calls make, replace or close descriptors.
#define SETTLES (CLEARS_FD0 | CLEARS_FD1 | MAKES_FD | MAKES_TWO | COPIES_FD)

// Beside the kinds of the table: pieces whose place and size a shape has found in the program's memory.
enum { GIVEN_IN = 32, GIVEN_OUT, GIVEN_RET };

static inline u64 is_by_result(u64 kind) {
  return kind == OUT_RET || kind == OUT_RET32 || kind == GIVEN_RET;
}

static inline u64 is_given(u64 kind) {
  return kind >= GIVEN_IN;
}

static inline u64 is_in(u64 kind) {
  return kind == INOUT_FIXED || kind == INOUT_ARG32 || kind == OUT_DEREF || kind == GIVEN_IN;
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
  u64 last;    // the piece whose length is the result; PIECES: none is
  u64 head;    // bytes of the entry before that
  u64 len;     // bytes of the entry, with all of the room of its pieces
  u64 patient; // it may wait for what it asks
  u64 wait;    // for so long, ns; ~0: for ever
  u64 lingers; // it waits for as long as its supervisor has said (S->linger)
  u64 finite;  // not for ever, but so long that its supervisor would look after it
  u64 refused; // as things are now, which replay does not know: no jump may depend on it
  u64 vectors; // how many there are at VECTORS
  u64 many;    // several messages: where the program has their headers
  u64 room;    // several messages: bytes that the kernel's part of the entry takes
  u64 took;    // messages or vectors: bytes of the entry behind `head`
  u64 asks;    // it may only be made if the descriptor has O_NONBLOCK
  u64 writes;  // it matters what the descriptor `target` is, because it is written to
  u64 target;
  u64 class;   // the target's
  u64 tried;   // a message: it was not asked to come back at once, and does
};

// The argument with the flags, where the shape wants to know.
static inline u64 hooks_flags(const struct plan *p) { return p->args[p->row->flags_arg]; }

// What of a call depends on what is asked (`shapes.c`). 0: it cannot be made here.
u64 hooks_shape(struct plan *p);
u64 hooks_has_much(u64 fd);

// Whether, and for how long, a call may wait (`waits.c`): 0, the call cannot be made here.
u64 hooks_plan_time(struct plan *p, u64 user);
u64 hooks_plan_select(struct plan *p);
void hooks_plan_ms(struct plan *p, u64 ms);
// The call is to find out without waiting.
void hooks_hurry(struct plan *p);
// May what is written here be more than is taken at once by what can take anything (pipe(7), poll)? While others wait, such a call
// may be asked to stop in its middle, and would have written less than the program wanted.
u64 hooks_is_long(const struct plan *p);

// Vectors and messages (`vectors.c`). 0: the call cannot be made here.
u64 hooks_plan_vectors(struct plan *p, u64 i, u64 array, u64 count);
u64 hooks_plan_message(struct plan *p);
u64 hooks_plan_messages(struct plan *p);
// Once the pieces have their places.
void hooks_link(struct plan *p);
// The results go to the program: 0, or 1 where memory is not there.
u64 hooks_scatter(struct plan *p, i64 result);

// Its memory is found by way of vectors.
static inline u64 is_nested(const struct plan *p) {
  u64 shape = p->row->shape;
  return shape == VECTOR || shape == MESSAGE || shape == MESSAGES;
}
