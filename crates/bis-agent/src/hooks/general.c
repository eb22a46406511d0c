// The general way of a call through its hook: it is planned and laid out in the log, admitted or left to be traced; what must be known is
// asked; it is made; and what came of it is given to the program.
#include <asm/errno.h>
#include <asm/fcntl.h>
#include <asm/poll.h>
#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/magic.h>

#include "classes.h"
#include "plan.h"
#include "ways.h"

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

// What the call wants, by its row and by what it asks. 0: it cannot be made here.
static u64 plan_call(struct plan *p, const struct frame *f, const struct row *row, u64 nr) {
  p->row = row;
  p->nr = nr;
  for (u64 i = 0; i < 6; i++) p->args[i] = f->args[i];
  // Said before the class, or `watched`, is looked at: whoever is about to map a file takes the classes away, then looks here.
  if ((row->flags & WRITES_FD) || row->shape == OPEN) __atomic_exchange_n(&S->writing, 1, __ATOMIC_SEQ_CST);
  p->pieces = row->pieces;
  p->patient = p->wait = p->lingers = p->finite = p->refused = p->asks = p->tried = 0;
  p->writes = is(row->flags & WRITES_FD);
  p->target = p->args[row->shape == COPY ? 2 : 0];
  for (u64 i = 0; i < 3; i++) p->piece[i] = row->piece[i];
  u64 possible = 1;
  if (row->shape != PLAIN) possible = hooks_shape(p);
  // As a copy between files (`hooks_shape`).
  if (nr == __NR_sendfile && below(COPY_MAX, p->args[3])) p->refused = hooks_has_much(p->args[1]);
  if (row->flags & TAKES_PATH0) possible &= !is_special_path(p->args[0]);
  if (row->flags & TAKES_PATH1) possible &= !is_special_path(p->args[1]);
  if (!possible) p->pieces = 0;
  return possible;
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

// Where everything goes: what has a length of its own first, so that the entry ends with the last byte written. 0: it cannot be
// made here.
static u64 lay_out(struct plan *p) {
  u64 at = sizeof(struct entry), possible = 1;
  p->last = PIECES;
  for (u64 i = 0; i < p->pieces; i++) {
    u64 kind = p->piece[i].kind;
    if (!is_given(kind)) {
      p->user[i] = p->args[p->piece[i].arg];
      p->cap[i] = 0;
    }
    p->place[i] = 0;
    if (p->user[i] == 0) continue;
    u64 cap = is_given(kind) ? p->cap[i] : capacity(&p->piece[i], p->args);
    if (cap > CAP_MAX || (is_in(kind) && cap > INOUT_MAX)) {
      possible = 0;
      continue;
    }
    p->cap[i] = cap;
    if (is_by_result(kind)) {
      p->last = i;
      // The kernel writes up to where the memory ends, and says how far it came.
      if (cap && kind != GIVEN_RET && hooks_touch((void *)p->user[i], cap)) possible = 0;
    } else {
      p->place[i] = at;
      at += ALIGN8(cap);
    }
  }
  p->head = at;
  if (p->last < PIECES) {
    p->place[p->last] = at;
    at += ALIGN8(p->cap[p->last]);
  }
  p->len = at;
  return possible;
}

// Recording: do its descriptors, and what others wait for, let the call be made here, as things are now? Without jumps.
static u64 is_refused(struct plan *p) {
  const struct row *row = p->row;
  u64 class0 = fd_class(p->args[0]);
  p->class = fd_class(p->target);
  u64 refused = p->refused | (p->writes & !(is(p->class) & below(p->class, FD_SPECIAL)));
  refused |= is(row->flags & TAKES_PATH1) & (class0 == FD_SPECIAL);
  refused |= (is(row->flags & (ALIGNED | COPIES_FD)) | (row->shape == FCNTL)) & (class0 == FD_SHOWN);
  refused |= is(row->flags & ALIGNED) & is_clonable(p->args[0], p->last < PIECES ? p->cap[p->last] : 0);
  refused |= (p->nr == __NR_write) & is(S->files_alone) & is(p->class ^ FD_FILE);
  // sendfile reads the other one, and so does a copy.
  refused |= (p->nr == __NR_sendfile) & (fd_class(p->args[1]) == FD_SHOWN);
  return refused | ((u64)(row->shape == COPY) & (class0 == FD_SHOWN));
}

// Is the call made here? In replay: if the log has an entry left.
static u64 is_admitted(struct plan *p, u64 possible, u64 sure) {
  u64 refused = is_refused(p), room = S->end - S->pos;
  u64 no = S->stop | is_judged(p->nr) | !possible | refused | below(room, p->len) | below(S->soon, S->pos);
  return !pick(!(S->pos ^ S->end), is(no) & !sure);
}

// In replay: was the call left for what was asked before it would have been made?
static inline u64 is_left_early(const struct entry *e) {
  return is(e->head & LEFT) & !is(e->head & LATE);
}

// Has this descriptor O_NONBLOCK? In replay, as the entry says.
static u64 is_nonblocking(struct entry *e, u64 fd) {
  u64 args[6] = {fd, F_GETFL, 0, 0, 0, 0};
  i64 flags = hooks_make(args, __NR_fcntl);
  u64 waits = pick(is_left_early(e), 1 & ~(is((u64)flags & O_NONBLOCK) & ~(u64)flags >> 63));
  e->head = (e->head & ~LEFT) | (LEFT & -waits);
  return !waits;
}

// Would a call on this descriptor wait? In replay, as the entry says.
static u64 would_wait(struct entry *e, u64 fd, u64 events) {
  *(volatile struct pollfd *)POLLFD = (struct pollfd){fd, events, 0};
  u64 args[6] = {POLLFD, 1, 0, 0, 0, 0};
  i64 ready = hooks_make(args, __NR_poll);
  S->phase = 1;
  // Errors are the call's own business, and come at once; `poll` takes no notice of a negative descriptor.
  u64 negative = (u32)fd >> 31;
  u64 waits = pick(is_left_early(e) | is(e->head & ASKED), ((u64)(ready == 0) & ~negative) | (u64)(ready == BAILED));
  e->head |= ASKED & -waits;
  if (!waits) return 0;
  waits = !is_nonblocking(e, fd);
  S->phase = 1;
  return waits;
}

// Would a pipe or a socket take it in parts, waiting in between? Whoever is looked after then would be told of the parts so far
// alone, as if a signal had come. A file takes it without waiting. In replay, as the entry says.
static u64 may_be_cut(struct plan *p, struct entry *e) {
  u64 asks = pick(is_left_early(e) | is(e->head & ASKED), is(p->class ^ FD_FILE));
  e->head |= ASKED & -asks;
  if (asks && !is_nonblocking(e, p->args[0])) return 1;
  S->phase = 1;
  return 0;
}

// May its descriptor not take it at once? A message that is not to wait does not.
static u64 waits_out(const struct plan *p) {
  return (p->row->flags & WAITS_OUT) && !(p->row->shape == SEND && (p->args[p->row->flags_arg] & MSG_DONTWAIT));
}

// A task's turn goes to another at one of so many calls: that takes as long as hundreds of them. A task that waits for what another
// does makes them again and again; one that holds what others want does better to go on. A power of two.
#define GIVES_WAY_AT 32

// Does this task give its turn away? In replay, as the entry says.
static u64 gives_way(struct entry *e) {
  u64 times = S->given_way + 1;
  S->given_way = times;
  return pick(is_left_early(e), 1 & ~is(times & (GIVES_WAY_AT - 1)));
}

// A call that others would wait for: does it wait?
static enum leaving ask_for_others(struct plan *p, struct entry *e) {
  const struct row *row = p->row;
  u64 *flags = &p->args[row->flags_arg], fd = p->args[0];
  e->result = pick(e->result, 0);
  if ((row->flags & ASKS) && !is_nonblocking(e, fd)) return EARLY;
  if ((row->flags & GIVES_WAY) && gives_way(e)) return EARLY;
  S->phase = 1;
  if (row->shape == RECEIVE || row->shape == MESSAGE || row->shape == MESSAGES) {
    p->tried = !(*flags & MSG_DONTWAIT);
    *flags |= MSG_DONTWAIT;
  } else if (waits_out(p) && hooks_is_long(p)) {
    if (may_be_cut(p, e)) return EARLY;
  } else if ((row->flags & WAITS_IN) || waits_out(p)) {
    if (would_wait(e, fd, row->flags & WAITS_IN ? POLLIN : POLLOUT)) return WAITING;
  }
  hooks_hurry(p);
  return STAYS;
}

// What must be known of the call before it is made.
static enum leaving ask(struct plan *p, struct entry *e) {
  if (p->asks) {
    e->result = pick(e->result, 0);
    if (!is_nonblocking(e, p->args[0])) return EARLY;
    S->phase = 1;
  }
  if (!S->alone) return ask_for_others(p, e);
  if (waits_out(p) && hooks_is_long(p)) {
    e->result = pick(e->result, 0);
    if (may_be_cut(p, e)) return EARLY;
  }
  // A task that is looked after in the middle of its time would begin it again.
  if (p->finite) hooks_hurry(p);
  else p->patient = 0;
  return STAYS;
}

// The pieces are in the log instead of where the program has them.
static enum leaving redirect(struct plan *p, struct entry *e) {
  for (u64 i = 0; i < p->pieces; i++) {
    if (p->user[i] == 0) continue;
    p->place[i] += (u64)e;
    u64 kind = p->piece[i].kind;
    if (is_in(kind)) {
      // In replay the log holds what came out.
      u64 to = pick(SCRATCH_BASE, p->place[i]);
      // The kernel finds that, too, and says so.
      if (hooks_copy((void *)to, (void *)p->user[i], p->cap[i])) return LATELY;
    }
    if (is_given(kind)) continue;
    p->args[p->piece[i].arg] = p->place[i];
    // What the kernel would not do because its results have no place to go must not be done here, or they are lost.
    if (p->cap[i] && hooks_touch((void *)p->user[i], p->cap[i])) return LATELY;
  }
  if (is_nested(p)) hooks_link(p);
  return STAYS;
}

// A file was opened, perhaps by a link that led into /proc, of which a path does not tell: then it is closed again, and opened by
// a traced call. That this was so is in the entry, as ASKED.
static i64 leave_proc(struct entry *e, i64 fd) {
  volatile struct statfs *statfs = (volatile struct statfs *)SCRATCH_BASE;
  statfs->f_type = 0;
  u64 args[6] = {fd, SCRATCH_BASE, 0, 0, 0, 0};
  i64 told = hooks_make(args, __NR_fstatfs);
  u64 found = 1 & ~(is(told) | is(statfs->f_type ^ PROC_SUPER_MAGIC) | (u64)fd >> 63);
  u64 is_proc = pick(is(e->head & ASKED), found);
  e->head |= ASKED & -is_proc;
  if (!is_proc) return fd;
  hooks_make(args, __NR_close);
  return BAILED;
}

// Has a wait that does not wait found nobody? A child may have ended of which its supervisor has not heard, and the kernel does not
// tell of it before: the traced call is made after that. In replay, as the entry says.
static u64 finds_nobody(const struct plan *p, struct entry *e) {
  // The kernel fills in a siginfo of zeros. It begins with the signal.
  u64 told = p->nr == __NR_waitid ? *(volatile u32 *)p->place[0] : 0;
  u64 nobody = pick(is(e->head & ASKED), 1 & ~(is(e->result) | is(told)));
  e->head |= ASKED & -nobody;
  return nobody;
}

// An exec: is what it names there? It fails as this does where a part of the path is missing (`do_open_execat`, fs/exec.c). Kernels
// before 6.9 look at the arguments first: where both are wrong, they say so of those.
static i64 look_for_program(const struct plan *p) {
  u64 args[6] = {AT_FDCWD, p->args[0], SCRATCH_BASE, 0, 0, 0};
  return hooks_make(args, __NR_newfstatat);
}

// Makes the call: its result is in the entry.
static enum leaving make(struct plan *p, struct entry *e) {
  const struct row *row = p->row;
  u64 truncates = (u64)(row->shape == OPEN) & is(p->args[row->flags_arg] & O_TRUNC);
  S->writing = truncates | (p->writes & !is(p->class ^ FD_FILE));
  S->lingers = p->lingers;
  i64 made = row->shape == EXEC ? look_for_program(p) : hooks_make(p->args, row->shape == REFUSED ? NO_CALL : p->nr);
  S->lingers = 0;
  if (row->shape == OPEN) made = leave_proc(e, made);
  i64 result = pick(e->result, made);
  e->result = result;
  if (result == BAILED) return LATELY;
  if (row->shape == EXEC && result != -ENOENT) return LATELY;
  // It will say so again.
  if (result == -EINVAL && (row->flags & ALIGNED)) return LATELY;
  if (result == -EAGAIN && p->tried && !is_nonblocking(e, p->args[0])) return WAITING;
  if (row->shape == WAIT && finds_nobody(p, e)) return LATELY;
  if (result == 0 && p->patient) {
    S->waits = 1;
    return LATELY;
  }
  S->answered += p->patient;
  return STAYS;
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

// The program gets its memory, and the entry ends with the last byte that was written. What the program is told.
static i64 give_back(struct plan *p, struct entry *e) {
  i64 result = e->result, told = result;
  u64 len = p->head;
  if (is_nested(p)) {
    if (result >= 0) {
      if (hooks_scatter(p, result)) told = -EFAULT;
      len += p->took;
    }
  } else if (result >= 0 || p->row->flags & ALWAYS) {
    for (u64 i = 0; i < p->pieces; i++) {
      if (p->user[i] == 0) continue;
      u64 n = written(p, i, result);
      if (n && hooks_copy((void *)p->user[i], (void *)p->place[i], n)) told = -EFAULT;
      if (i == p->last) len += ALIGN8(n);
    }
  }
  return finish(e, len, 0), told;
}

// The kernel's headers for programs do not have it (`include/linux/socket.h`).
#define AF_UNIX 1

// Is this a call after which nothing is known of descriptor 0? If it is connected, only where it leads to a server on this
// machine: the recorder looks at who that is.
static u64 clears_first(const struct plan *p) {
  unsigned short family = 0;
  if (!(p->row->flags & CLEARS_FD0)) return 0;
  return p->nr != __NR_connect || (!hooks_copy(&family, (const void *)p->args[1], sizeof family) && family == AF_UNIX);
}

// Descriptors that the call has made, connected, replaced or closed.
static void settle(const struct plan *p, i64 result) {
  u64 flags = p->row->flags, is_dup = p->row->shape == FCNTL && (p->args[1] == F_DUPFD || p->args[1] == F_DUPFD_CLOEXEC);
  u64 opened = p->row->shape == OPEN ? p->args[p->row->flags_arg] & (O_ACCMODE | O_TRUNC) : 0;
  if ((opened || p->row->shape == MEMFD) && result >= 0) hooks_classify(result, is(opened & O_TRUNC));
  if (clears_first(p)) set_class(p->args[0], 0);
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

u64 hooks_general(struct frame *f, const struct row *row, u64 nr, u64 sure) {
  struct plan p;
  if (!(row->flags & HOOKED)) return hooks_leave_traced();
  u64 check = hash(nr, f->args);
  u64 possible = plan_call(&p, f, row, nr);
  possible &= lay_out(&p);
  if (!is_admitted(&p, possible, sure)) return hooks_leave_traced();

  struct entry *e = begin(nr, check);
  if (!possible) hooks_diverged();
  enum leaving how = ask(&p, e);
  if (how == STAYS) how = redirect(&p, e);
  if (how == STAYS) how = make(&p, e);
  if (how != STAYS) return hooks_leave_marked(e, how);
  i64 told = give_back(&p, e);
  if (row->shape == OPEN || row->shape == MEMFD || row->shape == FCNTL || (row->flags & SETTLES)) settle(&p, told);
  f->rax = told;
  S->count++;
  return hooks_leave();
}
