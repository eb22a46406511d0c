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

#include "common.h"

_Static_assert(LOG_SOON + sizeof(struct entry) <= LOG_LEN, "a log that is taken soon has room for a call without memory");

// Products and sums that do not wait for each other.
static inline u64 hash(u64 nr, const u64 *a) {
  u64 h = (a[0] * 0xff51afd7ed558ccdul + a[1] * 0xc4ceb9fe1a85ec53ul) + (a[2] * 0xbf58476d1ce4e5b9ul + a[3] * 0x94d049bb133111ebul);
  u64 g = (a[4] * 0xd6e8feb86659fd93ul + a[5] * 0xe7037ed1a0b428dbul) + nr * 0x9e3779b97f4a7c15ul;
  __asm__("" : "+r"(g), "+r"(h));
  h += g;
  return h ^ h >> 32;
}

// Does this path lie in /proc or /dev, or might it, or can its beginning not be read? /dev/null, /dev/zero, /dev/random and
// /dev/urandom are like any other file.
static u64 is_special_path(u64 path) {
  u64 word = 0, rest = 0;
  if (hooks_copy(&word, (void *)path, 6)) return 1;
  u64 proc = 0x636f72702ful; // "/proc"
  u64 dev = 0x2f7665642ful;  // "/dev/"
  word &= 0xffffffffff;
  // Only while recording; what led to it is the same in replay.
  u64 relative = is((word & 0xff) ^ '/') & (S->in_proc | ((u32)word == 0x636f7270)); // "proc"
  if (word != dev) return (word == proc) | relative;
  if (hooks_copy(&rest, (void *)(path + 5), 5)) return 1;
  if (rest == 0x6c6c756e || rest == 0x6f72657a) return 0; // "null", "zero"
  word = 0;
  if (rest == 0x646e617275) return hooks_copy(&word, (void *)(path + 10), 3) || word != 0x6d6f; // "urand", "om"
  return rest != 0x6f646e6172 || hooks_copy(&word, (void *)(path + 10), 2) || word != 0x6d;     // "rando", "m"
}

// Has the program's own filter a say in this call? (nr < CALLS)
static inline u64 is_judged(u64 nr) {
  return S->judged[nr / 64] >> (nr % 64) & 1;
}

static inline u64 fd_class(u64 fd) {
  fd = (u32)fd;
  u64 inside = below(fd, FDS);
  return FD_CLASS[fd & (FDS - 1)] & -(inside & !is(S->no_fds));
}

static inline void set_class(u64 fd, u64 class) {
  fd = (u32)fd;
  if (fd >= FDS) return;
  FD_CLASS[fd] = class;
  COPIED[fd >> 3] &= ~(1 << (fd & 7));
}

// Is this a read of which the supervisor may clone the blocks?
static inline u64 is_clonable(u64 fd, u64 len) {
  if (len < CLONE_LEAST) return 0;
  fd = (u32)fd;
  u64 copied = COPIED[(fd & (FDS - 1)) >> 3] >> (fd & 7) & below(fd, FDS);
  return below(S->clone_min - 1, len) & ~copied;
}

static inline u64 is_by_result(u64 kind) {
  return kind == OUT_RET || kind == OUT_RET32 || kind == GIVEN_RET;
}

static inline u64 is_given(u64 kind) {
  return kind >= GIVEN_IN;
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
  return kind == INOUT_FIXED || kind == INOUT_ARG32 || kind == OUT_DEREF || kind == GIVEN_IN;
}

// The end of a hook: the words that concern one hook only.
static inline void leave_for(void) {
  S->exit_stop = 0;
  S->bail = 0;
  S->phase = 0;
  S->writing = 0;
}

// The call has been made. 1: it is to stop at the safepoint.
static inline u64 leave_soon(u64 replay, u64 pos) {
  u64 at_end = S->end_stop & (pos == S->end), exit_stop = S->exit_stop;
  leave_for();
  return (at_end & replay) | (exit_stop & ~replay);
}

// The same where a call more or less does not matter.
static __attribute__((noinline)) u64 leave(void) {
  return leave_soon(S->replay, S->pos);
}

// It is to be made by the trampoline's own system call instruction, which lies right before `done`.
static __attribute__((noinline)) u64 leave_traced(void) {
  S->done -= 2;
  leave_for();
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
static inline struct entry *begin(u64 nr, u64 check) {
  struct entry *e = next_entry();
  u64 head = pick(e->head, nr);
  u64 same = pick(e->check, (u32)check);
  if ((head & 0x1ff) != nr || same != (u32)check) hooks_diverged();
  e->head = head;
  e->check = same;
  return e;
}

static inline void finish(struct entry *e, u64 len, u64 flags) {
  e->head = (e->head & (0x1ff | ASKED)) | flags | len << 9;
  S->pos += len;
}

// In replay: was the call left for what was asked before it would have been made?
static inline u64 is_left_early(const struct entry *e) {
  return is(e->head & LEFT) & !is(e->head & LATE);
}

// Has this descriptor O_NONBLOCK? In replay, as the entry says.
static u64 is_nonblocking(struct entry *e, u64 fd) {
  u64 args[6] = {fd, 3, 0, 0, 0, 0};
  i64 flags = hooks_make(args, 72);
  u64 waits = pick(is_left_early(e), 1 & ~((u64)flags >> 11 & ~(u64)flags >> 63));
  e->head = (e->head & ~LEFT) | (LEFT & -waits);
  return !waits;
}

// Would a call on this descriptor wait? In replay, as the entry says.
static u64 would_wait(struct entry *e, u64 fd, u64 events) {
  u64 *pollfd = (u64 *)POLLFD;
  *pollfd = (u32)fd | events << 32;
  u64 args[6] = {(u64)pollfd, 1, 0, 0, 0, 0};
  i64 ready = hooks_make(args, 7);
  S->phase = 1;
  // Errors are the call's own business, and come at once.
  u64 waits = pick(is_left_early(e) | is(e->head & ASKED), (u64)(ready == 0) | (u64)(ready == BAILED));
  e->head |= ASKED & -waits;
  if (!waits) return 0;
  waits = !is_nonblocking(e, fd);
  S->phase = 1;
  return waits;
}

// A file was opened, perhaps by a link that led into /proc, of which a path does not tell: then it is closed again, and opened by
// a traced call. That this was so is in the entry, as ASKED.
static i64 leave_proc(struct entry *e, i64 fd) {
  volatile u64 *statfs = (volatile u64 *)SCRATCH_BASE;
  statfs[0] = 0;
  u64 args[6] = {fd, SCRATCH_BASE, 0, 0, 0, 0};
  i64 told = hooks_make(args, 138);
  u64 found = 1 & ~(is(told) | is(statfs[0] ^ PROC_SUPER_MAGIC) | (u64)fd >> 63);
  u64 is_proc = pick(is(e->head & ASKED), found);
  e->head |= ASKED & -is_proc;
  if (!is_proc) return fd;
  hooks_make(args, 3);
  return BAILED;
}

// A file was opened to be written, or cut. If it is a regular one that concerns nobody, or /dev/null, its descriptor has a
// class at once. If it was `cut`, and somebody has it mapped after all (its name led to another file when that was asked), the
// supervisor is told before the program goes on.
static void classify(u64 fd, u64 cut) {
  u64 *stat = (u64 *)SCRATCH_BASE;
  stat[0] = stat[1] = stat[3] = stat[5] = 0;
  u64 args[6] = {fd, SCRATCH_BASE, 0, 0, 0, 0};
  i64 result = hooks_make(args, 5);
  u64 dev = stat[0], ino = stat[1], mode = stat[3] & 0170000;
  u64 null = 1 & ~(is(result) | is(mode ^ 0020000) | is(stat[5] ^ 0x103) | is(S->no_fds));
  u64 other = is(result) | is(mode ^ 0100000) | is_mapped(dev, ino) | is(S->no_fds);
  for (int i = 0; i < 4; i += 2) other |= 1 & ~(is(dev ^ S->outputs[i]) | is(ino ^ S->outputs[i + 1]));
  for (int i = 0; i < 2; i++) other |= 1 & ~is(dev ^ S->devices[i]);
  cut &= is_mapped(dev, ino) & !is(result) & ~S->replay;
  S->cut |= (fd + 1) & -cut;
  S->exit_stop |= cut;
  if (fd >= FDS) return;
  FD_CLASS[fd] = FD_FILE & (other - 1);
  // Whoever watches a file says so, then takes classes away: this one, or it is seen here.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  FD_CLASS[fd] &= is_mapped(dev, ino) - 1;
  FD_CLASS[fd] |= FD_PLAIN & -null;
}

// Descriptors that the call has made, replaced or closed.
static void settle(const struct plan *p, i64 result) {
  u64 flags = p->row->flags, is_dup = p->row->shape == FCNTL && (p->args[1] == 0 || p->args[1] == 1030);
  u64 opened = p->row->shape == OPEN ? p->args[p->row->flags_arg] & (3 | O_TRUNC) : 0;
  if (opened && result >= 0) classify(result, is(opened & O_TRUNC));
  if (flags & CLEARS_FD0) set_class(p->args[0], 0);
  if (flags & CLEARS_FD1) set_class(p->args[1], 0);
  if (result < 0) return;
  if (flags & MAKES_FD) set_class(result, FD_PLAIN);
  if (((flags & COPIES_FD) || is_dup) && (u32)result != (u32)p->args[0]) {
    // Not that it is a file: somebody may map it at this moment, and take the class away.
    u64 class = fd_class(p->args[0]);
    set_class(result, class == FD_FILE ? 0 : class);
  }
  if (flags & MAKES_TWO) {
    const u32 *two = (const u32 *)p->place[0];
    set_class(two[0], FD_PLAIN);
    set_class(two[1], FD_PLAIN);
  }
}

// The call is to be traced after all. What led here is the same in replay: `result` stays as it was found.
static u64 wait_marker(struct entry *e) {
  finish(e, sizeof *e, LEFT);
  return leave_traced();
}

static u64 any(struct frame *f, const struct row *row, u64 nr, u64 sure);

// The same where it is known that the call waits: its supervisor need not see whether it comes back at once.
static u64 wait_marker_sure(struct entry *e) {
  S->waits = 1;
  return wait_marker(e);
}

// The same once all that was to be asked has been answered.
static u64 wait_marker_late(struct entry *e) {
  finish(e, sizeof *e, LEFT | LATE);
  return leave_traced();
}

// Calls without memory, of which nothing is to be known (getppid and its like): what is left of `quick` then. The kernel takes
// 100 ns for the smallest of them, so each instruction here can be measured; what does not change meanwhile is read once.
static __attribute__((noinline)) u64 bare(struct frame *f, u64 nr) {
  u64 replay = S->replay, pos = S->pos, is_last = S->end == pos;
  u32 check = hash(nr, f->args);
  // While recording there is always room behind LOG_SOON.
  u64 no = S->stop | is_judged(nr) | below(LOG_SOON, pos);
  if ((is_last & replay) | (no & ~replay)) return leave_traced();
  struct entry *e = (struct entry *)(LOG_BASE + pos);
  // As `begin`.
  u32 head = nr | sizeof *e << 9;
  u32 found = (e->head & replay) | (head & ~replay), same = (e->check & replay) | (check & ~replay);
  if ((found & 0x1ff) != nr || same != check) hooks_diverged();
  e->check = check;
  i64 made = hooks_make(f->args, nr);
  i64 result = (e->result & replay) | (made & ~replay);
  e->result = result;
  e->head = found;
  if (result == BAILED) return wait_marker(e);
  pos += sizeof *e;
  S->pos = pos;
  f->rax = result;
  S->count++;
  return leave_soon(replay, pos);
}

// Calls with at most one piece of memory, that need not be asked anything: most that there are. This does what `any` does.
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
  u64 no = S->stop | is_judged(nr) | !possible | shown | clones | below(end - pos, sizeof(struct entry) + ALIGN8(cap)) | below(LOG_SOON, pos);
  if (((u64)(pos == end) & replay) | (no & ~replay)) return leave_traced();
  if (!S->alone && (row->flags & WAITS_IN)) return any(f, row, nr, 1);

  struct entry *e = begin(nr, check);
  if (!possible) hooks_diverged();
  u64 place = (u64)(e + 1);
  if (user) a[piece->arg] = place;
  i64 made = hooks_make(a, nr);
  if (user) a[piece->arg] = user;
  i64 result = (e->result & replay) | (made & ~replay);
  e->result = result;
  if (result == BAILED || (result == -22 && (row->flags & ALIGNED))) return wait_marker(e);
  u64 len = sizeof *e, told = result;
  if (user && result >= 0) {
    u64 n = piece->kind == OUT_FIXED || (u64)result > cap ? cap : (u64)result;
    if (n && hooks_copy((void *)user, (void *)place, n)) told = -14;
    len += ALIGN8(n);
  } else if (user && piece->kind == OUT_FIXED) {
    len += ALIGN8(cap);
  }
  e->head = nr | len << 9;
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
  return any(f, row, nr, 0);
}

// `sure`: it is decided that the call is made here. To ask again could give another answer, and replay asks once.
static __attribute__((noinline)) u64 any(struct frame *f, const struct row *row, u64 nr, u64 sure) {
  struct plan p;
  p.row = row;
  p.nr = nr;
  for (u64 i = 0; i < 6; i++) p.args[i] = f->args[i];
  if (!(row->flags & HOOKED)) return leave_traced();
  // Said before the class, or `watched`, is looked at: whoever is about to map a file takes the classes away, then looks here.
  if ((row->flags & WRITES_FD) || row->shape == OPEN) __atomic_exchange_n(&S->writing, 1, __ATOMIC_SEQ_CST);

  u64 check = hash(nr, p.args);
  p.pieces = row->pieces;
  p.patient = p.finite = p.refused = p.asks = 0;
  p.writes = is(row->flags & WRITES_FD);
  p.target = p.args[row->shape == COPY ? 2 : 0];
  for (u64 i = 0; i < 3; i++) p.piece[i] = row->piece[i];
  u64 possible = 1;
  if (row->shape != PLAIN) possible = hooks_shape(&p);
  if (row->flags & TAKES_PATH0) possible &= !is_special_path(p.args[0]);
  if (row->flags & TAKES_PATH1) possible &= !is_special_path(p.args[1]);
  if (!possible) p.pieces = 0;

  // Where everything goes: what has a length of its own first, so that the entry ends with the last byte written.
  u64 at = sizeof(struct entry), last = PIECES;
  for (u64 i = 0; i < p.pieces; i++) {
    u64 kind = p.piece[i].kind;
    if (!is_given(kind)) {
      p.user[i] = p.args[p.piece[i].arg];
      p.cap[i] = 0;
    }
    p.place[i] = 0;
    if (p.user[i] == 0) continue;
    u64 cap = is_given(kind) ? p.cap[i] : capacity(&p.piece[i], p.args);
    if (cap > CAP_MAX || (is_in(kind) && cap > INOUT_MAX)) {
      possible = 0;
      continue;
    }
    p.cap[i] = cap;
    if (is_by_result(kind)) {
      last = i;
      // The kernel writes up to where the memory ends, and says how far it came.
      if (cap && kind != GIVEN_RET && hooks_touch((void *)p.user[i], cap)) possible = 0;
    } else {
      p.place[i] = at;
      at += ALIGN8(cap);
    }
  }
  p.head = at;
  if (last < PIECES) {
    p.place[last] = at;
    at += ALIGN8(p.cap[last]);
  }

  u64 class0 = fd_class(p.args[0]), target = fd_class(p.target);
  u64 special = p.writes & !(is(target) & below(target, FD_SPECIAL));
  special |= is(row->flags & TAKES_PATH1) & (class0 == FD_SPECIAL);
  special |= (is(row->flags & (ALIGNED | COPIES_FD)) | (row->shape == FCNTL)) & (class0 == FD_SHOWN);
  special |= is(row->flags & ALIGNED) & is_clonable(p.args[0], last < PIECES ? p.cap[last] : 0);
  // sendfile reads the other one, and so does a copy.
  special |= (nr == 40) & (fd_class(p.args[1]) == FD_SHOWN);
  // As a copy between files (`hooks_shape`).
  special |= (nr == 40) & below(COPY_MAX, p.args[3]) & !is(S->alone);
  special |= (u64)(row->shape == COPY) & (class0 == FD_SHOWN);
  u64 room = S->end - S->pos;
  u64 no = S->stop | is_judged(nr) | !possible | p.refused | special | below(room, at) | below(LOG_SOON, S->pos);
  // In replay: made here if the log has an entry left.
  if (pick(!(S->pos ^ S->end), is(no) & !sure)) return leave_traced();

  struct entry *e = begin(nr, check);
  if (!possible) hooks_diverged();
  u64 tries = 0;
  if (p.asks) {
    e->result = pick(e->result, 0);
    if (!is_nonblocking(e, p.args[0])) return wait_marker(e);
    S->phase = 1;
  }
  if (!S->alone) {
    u64 *flags = &p.args[row->flags_arg];
    e->result = pick(e->result, 0);
    if ((row->flags & ASKS) ? !is_nonblocking(e, p.args[0]) : (row->flags & ALONE_ONLY)) return wait_marker(e);
    S->phase = 1;
    if (row->shape == RECEIVE || row->shape == MESSAGE || row->shape == MESSAGES) {
      tries = !(*flags & DONTWAIT);
      *flags |= DONTWAIT;
    } else if ((row->flags & (WAITS_IN | WAITS_OUT)) && !(row->shape == SEND && (*flags & DONTWAIT))) {
      if ((row->flags & WAITS_OUT) && hooks_is_long(&p)) {
        // A file takes it without waiting. In replay, as the entry says.
        u64 asks = pick(is_left_early(e) | is(e->head & ASKED), is(target ^ FD_FILE));
        e->head |= ASKED & -asks;
        if (asks && !is_nonblocking(e, p.args[0])) return wait_marker(e);
        S->phase = 1;
      } else {
        u64 events = row->flags & WAITS_IN ? 1 : 4;
        if (would_wait(e, p.args[0], events)) return wait_marker_sure(e);
      }
    }
    hooks_hurry(&p);
  } else if (p.finite) {
    // Whoever is looked after in the middle of its time would begin it again.
    hooks_hurry(&p);
  } else {
    p.patient = 0;
  }

  u64 base = (u64)e, nested = row->shape == VECTOR || row->shape == MESSAGE || row->shape == MESSAGES;
  for (u64 i = 0; i < p.pieces; i++) {
    if (p.user[i] == 0) continue;
    p.place[i] += base;
    u64 kind = p.piece[i].kind;
    if (is_in(kind)) {
      // In replay the log holds what came out.
      u64 to = pick(SCRATCH_BASE, p.place[i]);
      if (hooks_copy((void *)to, (void *)p.user[i], p.cap[i])) {
        // The kernel finds that, too, and says so.
        return wait_marker_late(e);
      }
    }
    if (is_given(kind)) continue;
    p.args[p.piece[i].arg] = p.place[i];
    // What the kernel would not do because its results have no place to go must not be done here, or they are lost. (That
    // both ends are there says nothing of what is between; nobody has such buffers.)
    if (p.cap[i] && hooks_touch((void *)p.user[i], p.cap[i])) return wait_marker_late(e);
  }
  if (nested) hooks_link(&p);

  u64 truncates = (u64)(row->shape == OPEN) & is(p.args[row->flags_arg] & O_TRUNC);
  S->writing = truncates | (p.writes & !is(target ^ FD_FILE));
  i64 made = hooks_make(p.args, row->shape == REFUSED ? NO_CALL : nr);
  if (row->shape == OPEN) made = leave_proc(e, made);
  i64 result = pick(e->result, made);
  e->result = result;
  if (result == BAILED) return wait_marker_late(e);
  // It will say so again.
  if (result == -22 && (row->flags & ALIGNED)) return wait_marker_late(e);
  if (result == -11 && tries && !is_nonblocking(e, p.args[0])) return wait_marker_sure(e);
  if (result == 0 && p.patient) {
    S->waits = 1;
    return wait_marker_late(e);
  }

  u64 len = p.head;
  if (nested) {
    if (result >= 0) {
      if (hooks_scatter(&p, result)) result = -14;
      len += p.took;
    }
  } else if (result >= 0 || row->flags & ALWAYS) {
    i64 told = result;
    for (u64 i = 0; i < p.pieces; i++) {
      if (p.user[i] == 0) continue;
      u64 n = written(&p, i, result);
      if (n && hooks_copy((void *)p.user[i], (void *)p.place[i], n)) told = -14;
      if (i == last) len += ALIGN8(n);
    }
    result = told;
  }
  if (row->shape == OPEN || row->shape == FCNTL || (row->flags & SETTLES)) settle(&p, result);
  finish(e, len, 0);
  f->rax = result;
  S->count++;
  return leave();
}

typedef i64 clock_fn(u64 first, void *second);
typedef i64 cpu_fn(u32 *cpu, u32 *node, void *unused);

// getcpu(cpu, node, unused) of the vdso: which core. What goes to the log is what `hooks_call` would have put there.
static u64 which_core(struct frame *f) {
  u64 nr = f->rax, *a = f->args, n = 0;
  struct entry *e = next_entry();
  u64 *data = (u64 *)(e + 1);
  u64 check = hash(nr, a);
  S->phase = 2;
  if (S->replay) {
    if (S->pos == S->end) return leave_traced();
    begin(nr, check);
    if (e->head & LEFT) return wait_marker(e);
  } else {
    cpu_fn *ask = (cpu_fn *)S->getcpu;
    u32 cpu = 0, node = 0;
    if (S->stop || !ask || S->end - S->pos < sizeof *e + 16) return hooks_call(f);
    i64 told = ask(&cpu, &node, 0);
    if (told) return hooks_call(f);
    begin(nr, check);
    e->result = 0;
    data[0] = a[0] ? cpu : node;
    data[1] = node;
  }
  i64 result = e->result;
  u64 fault = 0;
  for (u64 i = 0; i < 2; i++)
    if (a[i]) fault |= hooks_copy((void *)a[i], &data[n++], 4);
  finish(e, sizeof *e + 8 * n, 0);
  f->rax = fault ? (u64)-14 : (u64)result;
  S->count++;
  return leave();
}

// The functions of the vdso that read the clock: gettimeofday(to, zone), clock_gettime(clock, to), time(to). While
// recording, the kernel's own function is asked, where that is possible. What goes to the log is what `hooks_call` would
// have put there, so that a log of either is consumed by both, and both may do what the other has left.
u64 hooks_time(struct frame *f) {
  u64 nr = f->rax, *a = f->args;
  u64 is_clock = nr == 228, is_day = nr == 96;
  if ((is_day && a[1]) || S->counted) return hooks_call(f);
  if (nr == 309) return which_core(f);
  S->phase = 2;
  u64 user = is_clock ? a[1] : a[0];
  u64 size = user == 0 ? 0 : nr == 201 ? 8 : 16;
  struct entry *e = next_entry();
  u64 *data = (u64 *)(e + 1);
  u64 check = hash(nr, a);
  if (S->replay) {
    if (S->pos == S->end) return leave_traced();
    begin(nr, check);
    if (e->head & LEFT) return wait_marker(e);
  } else {
    clock_fn *ask = (clock_fn *)S->clocks[is_clock ? 0 : is_day ? 1 : 2];
    if (S->stop || !ask || S->end - S->pos < sizeof *e + 16) return hooks_call(f);
    i64 told = is_clock ? ask(a[0], data) : ask(is_day ? (u64)data : 0, 0);
    if ((told & 0xff) == FALLBACK && nr != 201) return hooks_call(f);
    if (nr == 201) data[0] = told;
    begin(nr, check);
    e->result = told;
  }
  i64 result = e->result;
  u64 fault = 0;
  if (result >= 0 && size == 16) fault = hooks_put((void *)user, data[0], data[1]);
  if (result >= 0 && size == 8) fault = hooks_copy((void *)user, data, 8);
  finish(e, sizeof *e + size, 0);
  f->rax = fault ? (u64)-14 : (u64)result;
  S->count++;
  return leave();
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
    // In replay it is left out, by a jump that the compiler does not see: one branch both ways.
    u64 low = (u32)e->result, up = (u64)e->result >> 32, replay = S->replay, aux = 0;
    if (is_p) {
      aux = *core;
      __asm__ volatile("test %3, %3; jnz 1f; rdtscp; 1:" : "+a"(low), "+d"(up), "+c"(aux) : "r"(replay) : "cc");
      *core = aux;
      f->rcx = aux;
    } else {
      __asm__ volatile("test %2, %2; jnz 1f; rdtsc; 1:" : "+a"(low), "+d"(up) : "r"(replay) : "cc");
    }
    e->result = low | up << 32;
    f->rax = low;
    high = up;
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

// A number from the processor; the carry flag says whether there was one.
static u64 ask(u64 kind, u64 *carry) {
  u64 value = 0;
  u8 given = 0;
  if (kind == RDRAND)
    __asm__ volatile("rdrand %0; setc %1" : "=r"(value), "=qm"(given) : : "cc");
  else if (kind == RDSEED)
    __asm__ volatile("rdseed %0; setc %1" : "=r"(value), "=qm"(given) : : "cc");
  else
    __asm__ volatile("rdpid %0" : "=r"(value));
  *carry = given;
  return value;
}

// The rdrand, rdseed and rdpid instructions, each of them as the trampoline's own says. It is never left to be traced, because
// nothing would trace it: every other hook leaves enough of the log, and this one has it taken at its end.
void hooks_number(struct chance_frame *f) {
  S->phase = 2;
  u64 done = S->done;
  const u8 *opcode = (const u8 *)done - 3, *prefix = opcode;
  u64 modrm = opcode[2], rex = 0, is_short = 0, kind = (modrm & 8) ? RDSEED : RDRAND;
  // What lies before the prefixes ends the way to this hook: the upper half of a small negative number.
  while (*--prefix != 0xff) {
    if (*prefix == 0xf3) kind = RDPID;
    is_short |= *prefix == 0x66;
    if ((*prefix & 0xf0) == 0x40) rex = *prefix;
  }
  // In replay there is always an entry.
  if (pick(!(S->pos ^ S->end), 0)) hooks_diverged();
  struct entry *e = begin(kind, done);
  u64 *carry = (u64 *)(e + 1);
  if (!S->replay) e->result = ask(kind, carry);
  u64 value = e->result, *place = &f->regs[(modrm & 7) | (rex & 1) << 3];
  if (is_short)
    *place = (*place & ~0xfffful) | (value & 0xffff);
  else
    *place = rex & 8 ? value : (u32)value;
  // CF, and PF, AF, ZF, SF, OF are 0.
  if (kind != RDPID) f->rflags = (f->rflags & ~0x8d5ul) | (*carry & 1);
  finish(e, sizeof *e + 8, 0);
  S->count++;
  u64 at_end = S->end_stop & !(S->pos ^ S->end);
  u64 stop = is(pick(at_end, below(LOG_SOON, S->pos)));
  S->exit = ((u64)hooks_safepoint_whole & -stop) | (done & ~-stop);
  if (S->exit_stop) {
    S->exit_stop = 0;
    S->stop = 1;
  }
  S->phase = 0;
}
