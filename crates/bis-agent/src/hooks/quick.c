// The hooks: system calls that are made and logged without a stop.
//
// While recording, a call is made with its results going to the log, and copied from there to where the program wants
// them. In replay the same code runs, the system call instruction does nothing, and all that the kernel would have
// said is in the log already. Both ways retire the same conditional branches, in as many as there are: what differs is chosen
// by masks (`pick`), or by one jump that leads over no other. Only the kernel's own functions of the clock are not called in
// replay; where branches are counted, they are not called at all.
//
// A hook either makes its call, whole, or leaves it to be traced, with no trace of itself: that is what happens to all
// calls that are not in the table, that are too large, that concern the supervisor, or that would keep others waiting.
//
// This file has the way in, and the quick ways of calls of which little is to be known; all others go the general one.
#include <asm/errno.h>

#include "classes.h"
#include "plan.h"
#include "ways.h"

// Calls without memory, of which nothing is to be known (getppid and its like): what is left of `quick` then. The kernel takes
// 100 ns for the smallest of them, so each instruction here can be measured; what does not change meanwhile is read once.
static __attribute__((noinline)) u64 bare(struct frame *f, u64 nr) {
  u64 replay = S->replay, pos = S->pos, is_last = S->end == pos;
  u32 check = hash(nr, f->args);
  // While recording there is always some room behind `soon`.
  u64 no = S->stop | is_judged(nr) | below(S->soon, pos);
  if ((is_last & replay) | (no & ~replay)) return hooks_leave_traced();
  struct entry *e = (struct entry *)(LOG_BASE + pos);
  // As `begin`.
  u32 head = nr | sizeof *e << (EIGHTS - 3);
  u32 found = (e->head & replay) | (head & ~replay), same = (e->check & replay) | (check & ~replay);
  if ((found & CALL) != nr || same != check) hooks_diverged();
  e->check = check;
  i64 made = hooks_make(f->args, nr);
  i64 result = (e->result & replay) | (made & ~replay);
  e->result = result;
  e->head = found;
  if (result == BAILED) return hooks_leave_marked(e, EARLY);
  pos += sizeof *e;
  S->pos = pos;
  f->rax = result;
  S->count++;
  return leave_soon(replay, pos);
}

// Calls with at most one piece of memory, that need not be asked anything: most that there are. This does what `hooks_general` does.
// Until it is known that the call is made here, nothing depends on whether the task is alone: only a log says that in replay.
static __attribute__((noinline)) u64 quick(struct frame *f, const struct row *row, u64 nr) {
  u64 *a = f->args;
  u64 check = hash(nr, a);
  const struct piece *piece = &row->piece[0];
  u64 user = 0, cap = 0, possible = 1;
  if (row->pieces) {
    user = a[piece->arg];
    cap = piece->kind == OUT_FIXED ? piece->size : a[piece->of];
    cap = user ? cap : 0;
    if (cap > CAP_MAX) possible = cap = 0;
    if (cap && piece->kind == OUT_RET && hooks_touch((void *)user, cap)) possible = 0;
  }
  u64 replay = S->replay, pos = S->pos, end = S->end;
  u64 shown = is(row->flags & ALIGNED) & (fd_class(a[0]) == FD_SHOWN);
  u64 clones = is(row->flags & ALIGNED) & is_clonable(a[0], cap);
  u64 no = S->stop | is_judged(nr) | !possible | shown | clones | below(end - pos, sizeof(struct entry) + ALIGN8(cap)) | below(S->soon, pos);
  if (((u64)(pos == end) & replay) | (no & ~replay)) return hooks_leave_traced();
  if (!S->alone && (row->flags & WAITS_IN)) return hooks_general(f, row, nr, 1);

  struct entry *e = begin(nr, check);
  if (!possible) hooks_diverged();
  u64 place = (u64)(e + 1);
  if (user) a[piece->arg] = place;
  i64 made = hooks_make(a, nr);
  if (user) a[piece->arg] = user;
  i64 result = (e->result & replay) | (made & ~replay);
  e->result = result;
  if (result == BAILED || (result == -EINVAL && (row->flags & ALIGNED))) return hooks_leave_marked(e, EARLY);
  u64 len = sizeof *e, told = result;
  if (user && result >= 0) {
    u64 n = piece->kind == OUT_FIXED || (u64)result > cap ? cap : (u64)result;
    if (n && hooks_copy((void *)user, (void *)place, n)) told = -EFAULT;
    len += ALIGN8(n);
  } else if (user && piece->kind == OUT_FIXED) {
    len += ALIGN8(cap);
  }
  e->head = nr | len << (EIGHTS - 3);
  pos += len;
  S->pos = pos;
  f->rax = told;
  S->count++;
  return leave_soon(replay, pos);
}

u64 hooks_call(struct frame *f) {
  S->phase = 1;
  u64 nr = f->rax;
  const struct row *row = &TABLE[nr < CALLS ? nr : CALLS - 1];
  if (!((row->flags ^ (HOOKED | QUICK)) | row->pieces)) return bare(f, nr);
  if (row->flags & QUICK) return quick(f, row, nr);
  if (row->shape == MEMORY) return hooks_memory(f, nr);
  return hooks_general(f, row, nr, 0);
}
