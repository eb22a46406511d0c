// Calls whose memory depends on what is asked: by a command or an option, or by structures in the program's memory that
// say where more of it is.
//
// What the kernel would read twice is read once, here: the array of vectors, the header of a message. A program may
// have its results written over them. Vectors become one, in the log, and what came is spread over the program's own
// afterwards; so the kernel sees one long buffer, which no kind of file distinguishes from many.

#include "common.h"

// Messages with more than this of control data are left to be traced.
#define CONTROL_MAX 4096
#define NAME_MAX 128

// The pieces of a received message. The data come last: their length is the result.
enum { HEADER, CONTROL, NAME, DATA };

static void give(struct plan *p, u64 i, u64 kind, u64 user, u64 cap) {
  p->piece[i].kind = kind;
  p->user[i] = user;
  p->cap[i] = cap;
}

// Can all of it be written? The first and the last byte stand for it.
static u64 is_there(u64 user, u64 len) {
  return !user || !len || !hooks_touch((void *)user, len);
}

// The vectors at `array` become piece `i`.
static u64 plan_vectors(struct plan *p, u64 i, u64 array, u64 count) {
  const u64 *vector = (const u64 *)VECTORS;
  u64 total = 0;
  if (count > VECTORS_MAX || hooks_copy((void *)VECTORS, (void *)array, count * 16)) return 0;
  for (u64 k = 0; k < count; k++, vector += 2) {
    if (vector[1] > CAP_MAX || (total += vector[1]) > CAP_MAX) return 0;
    if (vector[1] && !is_there(vector[0], vector[1])) return 0;
  }
  p->vectors = count;
  give(p, i, GIVEN_RET, VECTORS, total);
  return 1;
}

static u64 plan_message(struct plan *p) {
  u64 header[7], user = p->args[1];
  if (!is_there(user, sizeof header) || hooks_copy(header, (void *)user, sizeof header)) return 0;
  u64 name_len = (u32)header[1], control_len = header[5];
  // The kernel refuses a negative length, and takes no more than NAME_MAX.
  if ((name_len >> 31) || control_len > CONTROL_MAX) return 0;
  name_len = name_len < NAME_MAX ? name_len : NAME_MAX;
  if (!is_there(header[0], name_len) || !is_there(header[4], control_len)) return 0;
  p->pieces = 4;
  give(p, HEADER, GIVEN_IN, user, sizeof header);
  give(p, CONTROL, GIVEN_IN, header[4], control_len);
  give(p, NAME, GIVEN_OUT, header[0], name_len);
  return plan_vectors(p, DATA, header[2], header[3]);
}

void hooks_link(struct plan *p) {
  u64 *one = (u64 *)ONE_VECTOR;
  u64 data = p->row->shape == MESSAGE ? DATA : 0;
  one[0] = p->place[data];
  one[1] = p->cap[data];
  if (p->row->shape == MESSAGE) {
    u64 *header = (u64 *)p->place[HEADER];
    header[0] = p->user[NAME] ? p->place[NAME] : 0;
    header[2] = ONE_VECTOR;
    header[3] = 1;
    header[4] = p->user[CONTROL] ? p->place[CONTROL] : 0;
    p->args[1] = (u64)header;
  } else {
    p->args[1] = ONE_VECTOR;
    p->args[2] = 1;
  }
}

static inline u64 least(u64 a, u64 b) {
  return a < b ? a : b;
}

u64 hooks_scatter(const struct plan *p, i64 result) {
  const u64 *vector = (const u64 *)VECTORS;
  u64 data = p->row->shape == MESSAGE ? DATA : 0;
  u64 from = p->place[data], left = least(result, p->cap[data]), bad = 0;
  for (u64 k = 0; k < p->vectors && left; k++, vector += 2) {
    u64 n = least(vector[1], left);
    if (n) bad |= hooks_copy((void *)vector[0], (void *)from, n);
    from += n;
    left -= n;
  }
  if (p->row->shape != MESSAGE) return bad;
  const u64 *header = (const u64 *)p->place[HEADER];
  u64 user = p->user[HEADER];
  if (p->user[CONTROL])
    bad |= hooks_copy((void *)p->user[CONTROL], (void *)p->place[CONTROL], least(header[5], p->cap[CONTROL]));
  if (p->user[NAME]) {
    bad |= hooks_copy((void *)p->user[NAME], (void *)p->place[NAME], least((u32)header[1], p->cap[NAME]));
    bad |= hooks_copy((void *)(user + 8), &header[1], 4);
  }
  bad |= hooks_copy((void *)(user + 40), &header[5], 8);
  bad |= hooks_copy((void *)(user + 48), &header[6], 4);
  return bad;
}

// A struct timespec or timeval says how long the call waits, 0 for ever. One that the kernel refuses is its business.
static u64 plan_time(struct plan *p, u64 user) {
  u64 time[2] = {1, 0};
  if (user && hooks_copy(time, (void *)user, sizeof time)) return 0;
  p->patient = is(time[0] | time[1]);
  // select counts microseconds, all others nanoseconds.
  u64 ms = p->nr == 23 ? 1000 : 1000000;
  p->finite = is(user) & (is(time[0]) | below(WAIT_MS_MAX * ms, time[1]));
  return !(time[0] >> 63) && time[1] < 1000000000;
}

// Sets of descriptors, and the time that is left.
static u64 plan_select(struct plan *p) {
  u64 count = (u32)p->args[0], mask = 0;
  if (count > FDS) return 0;
  p->pieces = 4;
  for (u64 i = 0; i < 3; i++)
    p->piece[i] = (struct piece){.arg = i + 1, .kind = INOUT_FIXED, .size = (count + 63) / 64 * 8};
  p->piece[3] = (struct piece){.arg = 4, .kind = INOUT_FIXED, .size = 16};
  // pselect6: {mask, its size}. Signals that are let in while it waits are the recorder's business.
  if (p->nr == 270 && p->args[5] && (hooks_copy(&mask, (void *)p->args[5], 8) || mask)) return 0;
  return plan_time(p, p->args[4]);
}

void hooks_hurry(struct plan *p) {
  u64 *none = (u64 *)NO_TIME;
  none[0] = none[1] = 0;
  switch (p->row->shape) {
  case POLL:
    p->args[2] = 0;
    break;
  case EPOLL:
    p->args[3] = p->nr == 441 ? NO_TIME : 0;
    break;
  case SELECT:
    p->args[4] = NO_TIME;
    p->user[3] = 0;
    break;
  case PPOLL:
    p->args[2] = NO_TIME;
    p->user[1] = 0;
    break;
  }
}

// A number of milliseconds; a negative one is for ever.
static void plan_ms(struct plan *p, u64 ms) {
  p->patient = is((u32)ms);
  p->finite = below(WAIT_MS_MAX, (u32)ms) & ~((u32)ms >> 31);
}

static u64 is_fcntl_plain(u64 command) {
  return command <= 4 || command == 6 || command == 1030 || command == 37 || command == 1032;
}

// The one piece of a request; 0: not one of those that are known.
static u64 plan_out(struct plan *p, u64 arg, u64 size) {
  p->piece[0] = (struct piece){.arg = arg, .kind = OUT_FIXED, .size = size};
  p->pieces = 1;
  return 1;
}

static u64 plan_ioctl(struct plan *p) {
  switch ((u32)p->args[1]) {
  case 0x5401: // TCGETS
    return plan_out(p, 2, 36);
  case 0x5413: // TIOCGWINSZ
    return plan_out(p, 2, 8);
  case 0x541b:     // FIONREAD
  case 0x540f:     // TIOCGPGRP
  case 0x5411:     // TIOCOUTQ
  case 0x80045430: // TIOCGPTN
    return plan_out(p, 2, 4);
  case 0x5421: // FIONBIO
  case 0x5450: // FIONCLEX
  case 0x5451: // FIOCLEX
  case 0x5402: // TCSETS
  case 0x5410: // TIOCSPGRP
    return 1;
  case 0x40049409: // FICLONE
    __atomic_exchange_n(&S->writing, 1, __ATOMIC_SEQ_CST);
    p->writes = 1;
    return 1;
  }
  return 0;
}

static u64 plan_prctl(struct plan *p) {
  switch ((u32)p->args[0]) {
  case 15: // PR_SET_NAME
  case 23: // PR_CAPBSET_READ
    return 1;
  case 16: // PR_GET_NAME
    return plan_out(p, 1, 16);
  }
  return 0;
}

// Options with pointers of their own, or that map memory.
static u64 is_option_plain(const struct plan *p) {
  u64 level = (u32)p->args[1], name = (u32)p->args[2];
  if (p->nr == 54) return !(level == 263 && (name == 5 || name == 13)) && level != 283;
  return !(level == 6 && name == 35) && !(level == 0 && name >= 128 && name <= 131) && !(level == 1 && name == 26);
}

static u64 plan_futex(const u64 *a) {
  u32 word;
  switch ((u32)a[1] & 0x7f) {
  case 1:  // FUTEX_WAKE
  case 10: // FUTEX_WAKE_BITSET
    return 1;
  case 0: // FUTEX_WAIT
  case 9: // FUTEX_WAIT_BITSET
    // Only where it does not wait at all.
    return !hooks_copy(&word, (void *)a[0], 4) && word != (u32)a[2];
  }
  return 0;
}

u64 hooks_shape(struct plan *p) {
  const struct row *row = p->row;
  const u64 *a = p->args;
  u64 flags = a[row->flags_arg];
  switch (row->shape) {
  case FCNTL:
    return is_fcntl_plain((u32)a[1]);
  case IOCTL:
    return plan_ioctl(p);
  case FUTEX:
    return plan_futex(a);
  case PRCTL:
    return plan_prctl(p);
  case SOCKOPT:
    return is_option_plain(p);
  case OPEN:
    // O_TRUNC changes a file that somebody may have mapped.
    p->refused = is(flags & 01000) & is(S->watched);
    return 1;
  case RECEIVE:
  case MESSAGE:
    // MSG_TRUNC, MSG_ERRQUEUE; MSG_WAITALL where it may not wait.
    p->refused = is(flags & 0x100) & !is(S->alone);
    if (flags & 0x2020) return 0;
    return row->shape == RECEIVE || plan_message(p);
  case VECTOR:
    p->pieces = 1;
    return a[2] && plan_vectors(p, 0, a[1], a[2]);
  case POLL:
    plan_ms(p, a[2]);
    return 1;
  case PPOLL:
    return a[3] == 0 && plan_time(p, a[2]);
  case EPOLL:
    if (p->nr != 441) plan_ms(p, a[3]);
    else if (!plan_time(p, a[3])) return 0;
    return a[4] == 0 || p->nr == 232;
  case SELECT:
    return plan_select(p);
  case WAIT:
    // WNOHANG.
    p->refused = !(flags & 1) & !is(S->alone);
    return 1;
  }
  return 1;
}
