// The hooks: system calls that are made and logged without a stop.
//
// While recording, a call is made with its results going to the log, and copied from there to where the program wants
// them. In replay the same code runs, the system call instruction does nothing, and all that the kernel would have
// said is in the log already. Both ways retire the same conditional branches: what differs is chosen by masks
// (`pick`), not by jumps. Only the clock is not read in replay.
//
// A hook either makes its call, whole, or leaves it to be traced, with no trace of itself: that is what happens to all
// calls that are not in the table, that are too large, that concern the supervisor, or that would keep others waiting.

#include "hooks.h"

extern i64 hooks_make(const u64 *args, u64 nr);
extern u64 hooks_copy(void *to, const void *from, u64 len);
extern u64 hooks_touch(void *at);
extern u64 hooks_put(void *to, u64 first, u64 second);
extern void hooks_safepoint(void);
extern void hooks_diverged(void);

#define ALIGN8(n) (((n) + 7) & ~7ul)
#define CAP_MAX 0x80000ul
#define INOUT_MAX 0x3000ul

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

// Six products that do not wait for each other.
static inline u64 hash(u64 nr, const u64 *a) {
  u64 h = nr * 0x9e3779b97f4a7c15ul;
  h += a[0] * 0xff51afd7ed558ccdul + a[1] * 0xc4ceb9fe1a85ec53ul;
  h += a[2] * 0xbf58476d1ce4e5b9ul + a[3] * 0x94d049bb133111ebul;
  h += a[4] * 0xd6e8feb86659fd93ul + a[5] * 0xe7037ed1a0b428dbul;
  return h ^ h >> 32;
}

// Does this path lie in /proc or /dev, or can its beginning not be read?
static u64 is_special_path(u64 path) {
  u64 word = 0;
  if (hooks_copy(&word, (void *)path, 6)) return 1;
  u64 proc = 0x2f636f72702ful; // "/proc/"
  u64 dev = 0x2f7665642ful;    // "/dev/"
  return (word & 0xffffffffff) == (proc & 0xffffffffff) || (word & 0xffffffffff) == dev;
}

static inline u64 fd_class(u64 fd) {
  fd = (u32)fd;
  u64 inside = below(fd, FDS);
  return FD_CLASS[fd & (FDS - 1)] & -(inside & !is(S->no_fds));
}

static inline void clear_class(u64 fd) {
  if ((u32)fd < FDS) FD_CLASS[(u32)fd] = 0;
}

// What a call of this row comes to: its pieces of memory in the log.
struct plan {
  u64 args[6];
  u64 user[3]; // where the program wants a piece; 0: it does not
  u64 cap[3];
  u64 place[3];
  struct piece piece[3];
  u64 pieces;
  u64 nr;
  u64 head; // bytes of the entry before the piece whose length is the result
};

static inline u64 is_by_result(u64 kind) {
  return kind == OUT_RET || kind == OUT_RET32;
}

// How much room a piece needs; ~0: it cannot be done here.
static u64 capacity(const struct piece *p, const u64 *args) {
  u64 of = args[p->of];
  u32 word = 0;
  switch (p->kind) {
  case OUT_FIXED:
  case INOUT_FIXED:
  case REM_FIXED:
    return p->size;
  case OUT_ARG:
  case OUT_RET:
    return of > CAP_MAX ? ~0ul : of * p->size;
  case OUT_ARG32:
  case OUT_RET32:
  case INOUT_ARG32:
    return (u32)of > CAP_MAX ? ~0ul : (u32)of * (u64)p->size;
  case OUT_DEREF:
    if (of == 0) return 0;
    if (hooks_copy(&word, (void *)of, 4)) return ~0ul;
    return word > 4096 ? ~0ul : word;
  }
  return ~0ul;
}

static inline u64 is_in(u64 kind) {
  return kind == INOUT_FIXED || kind == INOUT_ARG32 || kind == OUT_DEREF;
}

// Ways to leave a hook.
enum { MADE, TRACED };

static u64 leave(struct frame *f, u64 how) {
  u64 done = S->done;
  // The trampoline's own system call instruction lies right before `done`.
  u64 at_end = S->end_stop & !(S->pos ^ S->end);
  u64 stop = is(pick(at_end, S->exit_stop)) & (how == MADE);
  u64 go = done - 2 * (how == TRACED);
  S->exit = ((u64)hooks_safepoint & -stop) | (go & ~-stop);
  S->exit_stop = 0;
  S->bail = 0;
  S->phase = 0;
  S->writing = 0;
  (void)f;
  return 0;
}

// The bytes that were written to piece `i`.
static u64 written(const struct plan *p, u64 i, i64 result) {
  u64 n = p->cap[i], len;
  switch (p->piece[i].kind) {
  case OUT_RET:
  case OUT_RET32:
    n = (u64)result * p->piece[i].size;
    return n < p->cap[i] ? n : p->cap[i];
  case OUT_DEREF:
    for (u64 k = 0; k < p->pieces; k++)
      if (p->piece[k].arg == p->piece[i].of && p->place[k]) {
        len = *(u32 *)p->place[k];
        return len < n ? len : n;
      }
    return 0;
  }
  return n;
}

static inline struct entry *next_entry(void) {
  return (struct entry *)(LOG_BASE + S->pos);
}

// Begins the entry, and checks in replay that it is the one of this call.
static struct entry *begin(u64 nr, u64 check) {
  struct entry *e = next_entry();
  u64 tag = pick((u64)e->nr, nr);
  u64 same = pick(e->check, check);
  if (tag != nr || same != check) hooks_diverged();
  e->nr = tag;
  e->check = same;
  return e;
}

static u64 finish(struct entry *e, u64 len, u64 flags) {
  e->len = len;
  e->flags = flags;
  S->pos += len;
  return 0;
}

// Would a call on this descriptor wait? In replay, as the entry says.
static u64 would_wait(struct entry *e, u64 fd, u64 events) {
  u64 *pollfd = (u64 *)SCRATCH_BASE;
  *pollfd = (u32)fd | events << 32;
  u64 args[6] = {(u64)pollfd, 1, 0, 0, 0, 0};
  i64 ready = hooks_make(args, 7);
  S->phase = 1;
  // Errors are the call's own business, and come at once.
  u64 waits = pick(e->flags & 1, (u64)(ready == 0) | (u64)(ready == BAILED));
  e->flags = waits;
  return waits;
}

// A file was opened to be written. If it is a regular one that concerns nobody, its descriptor has a class at once.
static void classify(u64 fd) {
  u64 *stat = (u64 *)SCRATCH_BASE;
  stat[0] = stat[1] = stat[3] = 0;
  u64 args[6] = {fd, SCRATCH_BASE, 0, 0, 0, 0};
  i64 result = hooks_make(args, 5);
  u64 dev = stat[0], ino = stat[1], mode = stat[3] & 0170000;
  u64 other = is(result) | is(mode ^ 0100000) | is(S->watched) | is(S->no_fds);
  for (int i = 0; i < 4; i += 2) other |= 1 & ~(is(dev ^ S->outputs[i]) | is(ino ^ S->outputs[i + 1]));
  for (int i = 0; i < 2; i++) other |= 1 & ~is(dev ^ S->devices[i]);
  if (fd >= FDS) return;
  FD_CLASS[fd] = FD_FILE & (other - 1);
  // Whoever watches a file says so, then takes classes away: this one, or it is seen here.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  FD_CLASS[fd] &= is(S->watched) - 1;
}

// The call is to be traced after all. What led here is the same in replay: `result` stays as it was found.
static u64 wait_marker(struct frame *f, struct entry *e) {
  finish(e, sizeof *e, 1);
  return leave(f, TRACED);
}

static u64 is_fcntl_plain(u64 command) {
  return command <= 4 || command == 6 || command == 1030 || command == 37 || command == 1032;
}

// Changes the plan for calls whose memory depends on what is asked. 0: the call cannot be made here.
static u64 shape_plan(struct plan *p, const struct row *row) {
  const u64 *a = p->args;
  u32 word;
  struct piece out = {2, OUT_FIXED, 0, 0, 0};
  switch (row->shape) {
  case FCNTL:
    return is_fcntl_plain((u32)a[1]);
  case IOCTL:
    switch ((u32)a[1]) {
    case 0x5401: // TCGETS
      out.size = 36;
      break;
    case 0x5413: // TIOCGWINSZ
      out.size = 8;
      break;
    case 0x541b: // FIONREAD
    case 0x540f: // TIOCGPGRP
      out.size = 4;
      break;
    case 0x5421: // FIONBIO
    case 0x5450: // FIONCLEX
    case 0x5451: // FIOCLEX
      return 1;
    default:
      return 0;
    }
    p->piece[0] = out;
    p->pieces = 1;
    return 1;
  case FUTEX:
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
  case OPEN:
    // O_TRUNC changes a file that somebody may have mapped.
    return 1 & ~(is(a[row->flags_arg] & 01000) & is(S->watched));
  case SOCKFLAGS:
    return !(a[row->flags_arg] & 0x2020); // MSG_TRUNC, MSG_ERRQUEUE
  case EPOLL:
    return a[4] == 0 || p->nr == 232;
  }
  return 1;
}

u64 hooks_call(struct frame *f) {
  S->phase = 1;
  struct plan p;
  u64 nr = f->rax;
  const struct row *row = &TABLE[nr < CALLS ? nr : CALLS - 1];
  p.nr = nr;
  p.args[0] = f->rdi;
  p.args[1] = f->rsi;
  p.args[2] = f->rdx;
  p.args[3] = f->r10;
  p.args[4] = f->r8;
  p.args[5] = f->r9;
  if (!(row->flags & HOOKED)) return leave(f, TRACED);
  // Said before the class, or `watched`, is looked at: whoever is about to map a file takes the classes away, then looks here.
  if ((row->flags & WRITES_FD) || row->shape == OPEN) __atomic_exchange_n(&S->writing, 1, __ATOMIC_SEQ_CST);

  p.pieces = row->pieces;
  for (u64 i = 0; i < 3; i++) p.piece[i] = row->piece[i];
  u64 possible = 1;
  if (row->shape != PLAIN) possible = shape_plan(&p, row);
  if (row->flags & TAKES_PATH0) possible &= !is_special_path(p.args[0]);
  if (row->flags & TAKES_PATH1) possible &= !is_special_path(p.args[1]);

  // Where everything goes: what has a length of its own first, so that the entry ends with the last byte written.
  u64 at = sizeof(struct entry), last = 3;
  for (u64 i = 0; i < p.pieces; i++) {
    p.user[i] = p.args[p.piece[i].arg];
    p.cap[i] = p.place[i] = 0;
    if (p.user[i] == 0) continue;
    u64 cap = capacity(&p.piece[i], p.args);
    if (cap > CAP_MAX || (is_in(p.piece[i].kind) && cap > INOUT_MAX)) {
      possible = 0;
      continue;
    }
    p.cap[i] = cap;
    if (is_by_result(p.piece[i].kind)) {
      last = i;
    } else {
      p.place[i] = at;
      at += ALIGN8(cap);
    }
  }
  p.head = at;
  if (last < 3) {
    p.place[last] = at;
    at += ALIGN8(p.cap[last]);
  }

  u64 class0 = fd_class(p.args[0]);
  u64 special = is(row->flags & WRITES_FD) & !(is(class0) & below(class0, FD_SPECIAL));
  special |= is(row->flags & TAKES_PATH1) & (class0 == FD_SPECIAL);
  special |= is(row->flags & READS_FD) & (class0 == FD_SHOWN);
  u64 room = S->end - S->pos;
  u64 no = S->stop | !possible | special | below(room, at);
  // In replay: made here if the log has an entry left.
  if (pick(!(S->pos ^ S->end), is(no))) return leave(f, TRACED);

  u64 check = hash(nr, p.args);
  struct entry *e = begin(nr, check);
  u64 timeout = ~0ul;
  if (!S->alone) {
    e->result = pick(e->result, 0);
    if (row->flags & ALONE_ONLY) return wait_marker(f, e);
    if (row->flags & (WAITS_IN | WAITS_OUT)) {
      u64 events = row->flags & WAITS_IN ? 1 : 4;
      if (would_wait(e, p.args[0], events)) return wait_marker(f, e);
    }
    u64 timeout_arg = row->shape == POLL ? 2 : row->shape == EPOLL ? 3 : 6;
    if (timeout_arg < 6) {
      timeout = p.args[timeout_arg];
      p.args[timeout_arg] = 0;
    }
  }

  u64 base = (u64)e;
  for (u64 i = 0; i < p.pieces; i++) {
    if (p.user[i] == 0) continue;
    p.place[i] += base;
    u64 kind = p.piece[i].kind;
    if (is_in(kind)) {
      // In replay the log holds what came out.
      u64 to = pick(SCRATCH_BASE, p.place[i]);
      if (hooks_copy((void *)to, (void *)p.user[i], p.cap[i])) {
        // The kernel finds that, too, and says so.
        return wait_marker(f, e);
      }
    }
    p.args[p.piece[i].arg] = p.place[i];
    // What the kernel would not do because its results have no place to go must not be done here, or they are lost. (That
    // both ends are there says nothing of what is between; nobody has such buffers.)
    char *user = (char *)p.user[i];
    if (p.cap[i] && (hooks_touch(user) | hooks_touch(user + p.cap[i] - 1))) return wait_marker(f, e);
  }

  u64 truncates = (u64)(row->shape == OPEN) & is(p.args[row->flags_arg] & 01000);
  S->writing = truncates | (is(row->flags & WRITES_FD) & !is(class0 ^ FD_FILE));
  i64 made = hooks_make(p.args, nr);
  i64 result = pick(e->result, made);
  e->result = result;
  if (result == BAILED) return wait_marker(f, e);
  // The kernel may want the program's own memory: aligned, for example. It will say so again.
  if (result == -22 && p.pieces) return wait_marker(f, e);
  if (result == 0 && timeout != ~0ul && (u32)timeout != 0) return wait_marker(f, e);

  u64 len = p.head;
  if (result >= 0 || row->flags & ALWAYS) {
    i64 told = result;
    for (u64 i = 0; i < p.pieces; i++) {
      if (p.user[i] == 0) continue;
      u64 n = written(&p, i, result);
      if (n && hooks_copy((void *)p.user[i], (void *)p.place[i], n)) told = -14;
      if (i == last) len += ALIGN8(n);
    }
    result = told;
  }
  if (row->shape == OPEN && result >= 0 && (p.args[row->flags_arg] & 3)) classify(result);
  if (row->flags & CLEARS_FD0) clear_class(p.args[0]);
  if (row->flags & CLEARS_FD1) clear_class(p.args[1]);
  finish(e, len, 0);
  f->rax = result;
  S->count++;
  return leave(f, MADE);
}

typedef i64 clock_fn(u64 first, void *second);

// The functions of the vdso that read the clock: gettimeofday(to, zone), clock_gettime(clock, to), time(to). While
// recording, the kernel's own function is asked, where that is possible. What goes to the log is what `hooks_call` would
// have put there, so that a log of either is consumed by both, and both may do what the other has left.
u64 hooks_time(struct frame *f) {
  u64 nr = f->rax;
  u64 is_clock = nr == 228, is_day = nr == 96;
  if (is_day && f->rsi) return hooks_call(f);
  S->phase = 2;
  u64 user = is_clock ? f->rsi : f->rdi;
  u64 size = user == 0 ? 0 : nr == 201 ? 8 : 16;
  u64 args[6] = {f->rdi, f->rsi, f->rdx, f->r10, f->r8, f->r9};
  struct entry *e = next_entry();
  u64 *data = (u64 *)(e + 1);
  u64 check = hash(nr, args);
  if (S->replay) {
    if (S->pos == S->end) return leave(f, TRACED);
    if (e->nr != nr || e->check != check) hooks_diverged();
    if (e->flags & 1) return wait_marker(f, e);
  } else {
    clock_fn *ask = (clock_fn *)S->clocks[is_clock ? 0 : is_day ? 1 : 2];
    if (S->stop || !ask || S->end - S->pos < sizeof *e + 16) return hooks_call(f);
    i64 told = is_clock ? ask(f->rdi, data) : ask(is_day ? (u64)data : 0, 0);
    if ((told & 0xff) == FALLBACK && nr != 201) return hooks_call(f);
    if (nr == 201) data[0] = told;
    e->nr = nr;
    e->check = check;
    e->result = told;
  }
  i64 result = e->result;
  u64 fault = 0;
  if (result >= 0 && size == 16) fault = hooks_put((void *)user, data[0], data[1]);
  if (result >= 0 && size == 8) fault = hooks_copy((void *)user, data, 8);
  finish(e, sizeof *e + size, 0);
  f->rax = fault ? (u64)-14 : (u64)result;
  S->count++;
  return leave(f, MADE);
}

// The rdtsc and rdtscp instructions; returns what rdx is to be. There is no safepoint: rcx and r11, which it would take,
// are the program's. A signal that comes meanwhile waits for the next hook, which is left then, or for a pause.
u64 hooks_counter(struct counter_frame *f, u64 kind) {
  S->phase = 2;
  u64 done = S->done;
  u64 is_p = kind == RDTSCP;
  u64 len = sizeof(struct entry) + 8 * is_p;
  u64 room = S->end - S->pos;
  u64 no = S->stop | is(!S->ticks) | below(room, len);
  u64 high = done;
  if (pick(!(S->pos ^ S->end), is(no))) {
    S->exit = done - 2 - is_p;
  } else {
    struct entry *e = begin(kind, done);
    u64 *core = (u64 *)(e + 1);
    if (!S->replay) {
      u32 low, up, aux = 0;
      if (is_p)
        __asm__ volatile("rdtscp" : "=a"(low), "=d"(up), "=c"(aux));
      else
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(up));
      e->result = low | (u64)up << 32;
      if (is_p) *core = aux;
    }
    f->rax = (u32)e->result;
    high = (u64)e->result >> 32;
    if (is_p) f->rcx = *core;
    finish(e, len, 0);
    S->count++;
    S->exit = done;
  }
  if (S->exit_stop) {
    S->exit_stop = 0;
    S->stop = 1;
  }
  S->phase = 0;
  return high;
}
