// The ways in: `entry.S` has the program's registers on the stack.
#pragma once

#include "hooks.h"

// A call. 1: it is to stop at the safepoint.
u64 hooks_call(struct frame *f);
// A call by the general way. `sure`: it is decided that the call is made here. To ask again could give another answer,
// and replay asks once.
u64 hooks_general(struct frame *f, const struct row *row, u64 nr, u64 sure);
// A call that changes the address space (`memory.c`).
u64 hooks_memory(struct frame *f, u64 nr);
