// Whether, and for how long, a call may wait.
#include <asm/unistd.h>
#include <linux/limits.h>

#include "plan.h"

// Waits with a limit above this are not for hooks: a task that is looked after (after 200 ms, `watch.rs`) makes its call
// again, with all of its time.
#define WAIT_MS_MAX 150

// What waits less than so many times what its supervisor has said does not linger: it begins anew, with all of its time, where it
// is left.
#define LINGERS_MIN 16

// A struct timespec or timeval says how long the call waits, 0 for ever. One that the kernel refuses is its business.
u64 hooks_plan_time(struct plan *p, u64 user) {
  u64 time[2] = {1, 0};
  if (user && hooks_copy(time, (void *)user, sizeof time)) return 0;
  p->patient = is(time[0] | time[1]);
  // select counts microseconds, all others nanoseconds.
  u64 ms = p->nr == __NR_select ? 1000 : 1000000;
  p->wait = (time[1] * (1000000 / ms) + is(time[0]) * 1000000000) | -(u64)!user;
  p->finite = is(user) & (is(time[0]) | below(WAIT_MS_MAX * ms, time[1]));
  return !(time[0] >> 63) && time[1] < 1000000000;
}

// Sets of descriptors, and the time that is left.
u64 hooks_plan_select(struct plan *p) {
  u64 count = (u32)p->args[0], mask = 0;
  if (count > FDS) return 0;
  p->pieces = 4;
  for (u64 i = 0; i < 3; i++)
    p->piece[i] = (struct piece){.arg = i + 1, .kind = INOUT_FIXED, .size = (count + 63) / 64 * 8};
  p->piece[3] = (struct piece){.arg = 4, .kind = INOUT_FIXED, .size = 16};
  // pselect6: {mask, its size}. Signals that are let in while it waits are the recorder's business.
  if (p->nr == __NR_pselect6 && p->args[5] && (hooks_copy(&mask, (void *)p->args[5], 8) || mask)) return 0;
  return hooks_plan_time(p, p->args[4]);
}

// A number of milliseconds; a negative one is for ever.
void hooks_plan_ms(struct plan *p, u64 ms) {
  p->patient = is((u32)ms);
  p->wait = (u64)(u32)ms * 1000000 | -((u64)(u32)ms >> 31);
  p->finite = below(WAIT_MS_MAX, (u32)ms) & ~((u32)ms >> 31);
}

// How much these vectors of the program's have; ~0: that is not to be found out.
static u64 total(u64 vectors, u64 count) {
  enum { COUNT_MAX = 16 };
  u64 sum = 0, vector[2];
  if (count > COUNT_MAX) return ~0ul;
  for (u64 i = 0; i < count; i++) {
    if (hooks_copy(vector, (void *)(vectors + 16 * i), 16) || vector[1] > ~0u) return ~0ul;
    sum += vector[1];
  }
  return sum;
}

u64 hooks_is_long(const struct plan *p) {
  const u64 *a = p->args;
  u64 header[2];
  switch (p->nr) {
  case __NR_write:
  case __NR_pwrite64:
  case __NR_sendto:
    return below(PIPE_BUF, a[2]);
  case __NR_writev:
  case __NR_pwritev:
    return below(PIPE_BUF, total(a[1], a[2]));
  case __NR_sendmsg:
    if (hooks_copy(header, (void *)(a[1] + 16), 16)) return 1;
    return below(PIPE_BUF, total(header[0], header[1]));
  }
  // sendmmsg; sendfile, of which each page takes a place in a pipe.
  return 1;
}

// `nr`, or `other` where all bits of `mask` are set.
static u64 change(u64 nr, u64 other, u64 mask) {
  return nr ^ ((nr ^ other) & mask);
}

// The call has no time to wait, or the little that its supervisor has said (in replay, nobody asks how much it was). Counted in
// milliseconds that would be too long, so it is made by a relative that counts in nanoseconds.
void hooks_hurry(struct plan *p) {
  u64 *time = (u64 *)NO_TIME;
  p->lingers = is(S->linger) & p->patient & below(LINGERS_MIN * S->linger, p->wait);
  u64 lingers = -p->lingers;
  time[0] = 0;
  time[1] = S->linger & lingers;
  switch (p->row->shape) {
  case POLL:
    p->nr = change(p->nr, __NR_ppoll, lingers);
    p->args[2] = NO_TIME & lingers;
    p->args[3] &= ~lingers;
    break;
  case EPOLL:
    p->args[3] = NO_TIME & (lingers | -(u64)(p->nr == __NR_epoll_pwait2));
    p->args[4] &= ~lingers;
    p->nr = change(p->nr, __NR_epoll_pwait2, lingers);
    break;
  case SELECT:
    // select counts microseconds.
    if (p->nr == __NR_select) time[1] /= 1000;
    p->args[4] = NO_TIME;
    p->user[3] = 0;
    break;
  case PPOLL:
    p->args[2] = NO_TIME;
    p->user[1] = 0;
    break;
  }
}
