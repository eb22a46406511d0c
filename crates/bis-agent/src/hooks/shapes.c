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

static inline u64 least(u64 a, u64 b) {
  return a < b ? a : b;
}

// `left` bytes from `from` on go to these vectors.
static u64 spread(const u64 *vector, u64 count, u64 from, u64 left) {
  u64 bad = 0;
  for (u64 k = 0; k < count && left; k++, vector += 2) {
    u64 n = least(vector[1], left);
    if (n) bad |= hooks_copy((void *)vector[0], (void *)from, n);
    from += n;
    left -= n;
  }
  return bad;
}

// Several messages (recvmmsg). The kernel writes them into the second half of what the entry may take; what came is put together
// in the first, message by message: header, control data, name, data, each on 8 bytes. In replay it is there already.
struct wanted {
  u64 name, name_len, control, control_len, vectors, len;
};

static u64 plan_messages(struct plan *p) {
  u64 user = p->args[1], count = (u32)p->args[2], flags = p->args[3], used = 0;
  struct wanted *it = (struct wanted *)MANY;
  // A limit to its time is looked at between messages.
  if (!count || count > MANY_MAX || p->args[4] || !is_there(user, count * 64)) return 0;
  p->room = count * 64;
  for (u64 i = 0; i < count; i++, it++) {
    u64 header[7];
    if (hooks_copy(header, (void *)(user + i * 64), sizeof header)) return 0;
    *it = (struct wanted){header[0], (u32)header[1], header[4], header[5], header[3], 0};
    if ((it->name_len >> 31) || it->control_len > CONTROL_MAX || it->vectors > VECTORS_MAX - used) return 0;
    it->name_len = least(it->name_len, NAME_MAX);
    if (!is_there(it->name, it->name_len) || !is_there(it->control, it->control_len)) return 0;
    u64 *vector = (u64 *)VECTORS + 2 * used;
    if (hooks_copy(vector, (void *)header[2], it->vectors * 16)) return 0;
    used += it->vectors;
    for (u64 k = 0; k < it->vectors; k++, vector += 2) {
      if (vector[1] > CAP_MAX || (it->len += vector[1]) > CAP_MAX) return 0;
      if (vector[1] && !is_there(vector[0], vector[1])) return 0;
    }
    p->room += ALIGN8(it->control_len) + ALIGN8(it->name_len) + ALIGN8(it->len);
    if (p->room > CAP_MAX / 2) return 0;
  }
  p->many = user;
  p->pieces = 1;
  give(p, 0, GIVEN_RET, VECTORS, 2 * p->room);
  // It would wait for all of them.
  p->asks = count > 1 && !(flags & (DONTWAIT | WAITFORONE));
  return 1;
}

static void link_messages(struct plan *p) {
  u64 at = p->place[0] + p->room, count = (u32)p->args[2];
  const struct wanted *it = (const struct wanted *)MANY;
  // In replay the log holds what came behind it, too.
  u64 *header = (u64 *)pick(SCRATCH_BASE, at), *vector = (u64 *)MANY_VECTORS;
  p->args[1] = (u64)header;
  at += count * 64;
  for (u64 i = 0; i < count; i++, it++, header += 8, vector += 2) {
    header[4] = it->control ? at : 0;
    header[5] = it->control_len;
    at += ALIGN8(it->control_len);
    header[0] = it->name ? at : 0;
    header[1] = it->name_len;
    at += ALIGN8(it->name_len);
    vector[0] = at;
    vector[1] = it->len;
    at += ALIGN8(it->len);
    header[2] = (u64)vector;
    header[3] = 1;
    header[6] = header[7] = 0;
  }
}

// The kernel's bytes go to where they stay.
static u64 keep(u64 to, u64 from, u64 len) {
  hooks_copy((void *)to, (void *)pick(to, from), len);
  return to + ALIGN8(len);
}

static u64 scatter_messages(struct plan *p, i64 result) {
  u64 to = p->place[0], header_at = to + p->room, count = (u32)p->args[2];
  u64 at = header_at + count * 64, user = p->many, bad = 0;
  const struct wanted *it = (const struct wanted *)MANY;
  const u64 *vector = (const u64 *)VECTORS;
  for (u64 i = 0; i < least(result, count); i++, it++, header_at += 64, user += 64) {
    const u64 *header = (const u64 *)to;
    to = keep(to, header_at, 64);
    u64 control_len = it->control ? least(header[5], it->control_len) : 0;
    u64 name_len = it->name ? least((u32)header[1], it->name_len) : 0;
    u64 len = least((u32)header[7], it->len);
    u64 control = to;
    to = keep(to, at, control_len);
    at += ALIGN8(it->control_len);
    bad |= hooks_copy((void *)it->control, (void *)control, control_len);
    u64 name = to;
    to = keep(to, at, name_len);
    at += ALIGN8(it->name_len);
    if (it->name) {
      bad |= hooks_copy((void *)it->name, (void *)name, name_len);
      bad |= hooks_copy((void *)(user + 8), &header[1], 4);
    }
    u64 data = to;
    to = keep(to, at, len);
    at += ALIGN8(it->len);
    bad |= spread(vector, it->vectors, data, len);
    vector += 2 * it->vectors;
    bad |= hooks_copy((void *)(user + 40), &header[5], 8);
    bad |= hooks_copy((void *)(user + 48), &header[6], 4);
    bad |= hooks_copy((void *)(user + 56), &header[7], 4);
  }
  p->took = to - p->place[0];
  return bad;
}

void hooks_link(struct plan *p) {
  if (p->row->shape == MESSAGES) {
    link_messages(p);
    return;
  }
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

u64 hooks_scatter(struct plan *p, i64 result) {
  if (p->row->shape == MESSAGES) return scatter_messages(p, result);
  u64 data = p->row->shape == MESSAGE ? DATA : 0;
  u64 len = least(result, p->cap[data]);
  p->took = ALIGN8(len);
  u64 bad = spread((const u64 *)VECTORS, p->vectors, p->place[data], len);
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
  case 1:  // write
  case 18: // pwrite64
  case 44: // sendto
    return below(PIPE_BUF, a[2]);
  case 20:  // writev
  case 296: // pwritev
    return below(PIPE_BUF, total(a[1], a[2]));
  case 46: // sendmsg
    if (hooks_copy(header, (void *)(a[1] + 16), 16)) return 1;
    return below(PIPE_BUF, total(header[0], header[1]));
  }
  // sendmmsg; sendfile, of which each page takes a place in a pipe.
  return 1;
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
  case 0x4020940d: // FICLONERANGE
    __atomic_exchange_n(&S->writing, 1, __ATOMIC_SEQ_CST);
    p->writes = 1;
    return 1;
  }
  return 0;
}

// Not PR_SET_NAME: a debugger shows what threads are called, and learns it from the call's event.
static u64 plan_prctl(struct plan *p) {
  switch ((u32)p->args[0]) {
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

// Does the path of an open lead to a file that somebody has mapped, or is that not to be found out?
static u64 names_mapped(const struct plan *p, u64 flags) {
  volatile u64 *stat = (volatile u64 *)SCRATCH_BASE;
  stat[0] = stat[1] = 0;
  // open has no folder: AT_FDCWD. O_NOFOLLOW is AT_SYMLINK_NOFOLLOW.
  u64 has_folder = p->nr == 257;
  u64 folder = has_folder ? p->args[0] : -100ul, path = has_folder ? p->args[1] : p->args[0];
  u64 args[6] = {folder, path, SCRATCH_BASE, (flags & 0400000) ? 0x100 : 0, 0, 0};
  i64 result = hooks_make(args, 262);
  S->phase = 1;
  return (is_mapped(stat[0], stat[1]) & !is(result)) | !is(result ^ BAILED);
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
    if (flags & O_TRUNC) p->refused = names_mapped(p, flags);
    return 1;
  case RECEIVE:
  case MESSAGE:
    // MSG_TRUNC, MSG_ERRQUEUE; MSG_WAITALL where it may not wait.
    p->refused = is(flags & 0x100) & !is(S->alone);
    if (flags & 0x2020) return 0;
    return row->shape == RECEIVE || plan_message(p);
  case COPY:
    // Who asks for a stop meanwhile would get less copied, as a signal would.
    p->refused = below(COPY_MAX, a[4]) & !is(S->alone);
    return 1;
  case MESSAGES:
    p->refused = is(flags & 0x100) & !is(S->alone);
    return !(flags & 0x2020) && plan_messages(p);
  case RANDOM:
    // The same; up to 256 bytes come whole (random(7)).
    p->refused = below(256, a[1]) & !is(S->alone);
    return 1;
  case PRLIMIT:
    // A new limit is the recorder's business.
    return a[2] == 0;
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
