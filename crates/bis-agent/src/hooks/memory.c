// Calls that change the address space: mmap, munmap, mprotect, brk, madvise. They are made here where they concern plain memory
// only: what is mapped, is the program's, and is nothing that the recorder knows of. The ranges of which that is so are in a list
// that is kept here and by the supervisor, which takes out of it what an event makes unlike that. What is missing in it is only slower.
//
// A file may be mapped, too, of which the supervisor has said that the trace has it and that nobody changes it: the pieces of
// libraries, but for their text. Privately, or shared where it cannot be written to by that.
//
// And two with which each program begins: arch_prctl, where it says where thread-local storage is, and set_tid_address, which names
// a word for the kernel to clear.
//
// Replay must do the same to its address space. An entry says what, so that it comes at the same place among the program's stores;
// there the call is made, as it stands in the log. Where somebody may watch the memory it stops first, and its supervisor lets it
// be made. A named word is the supervisor's to know: replay does not name it.
//
// The two ways have different branches. So where branches are counted, nothing is done here.
#include <asm/fcntl.h>
#include <asm/prctl.h>
#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/mman.h>

#include "classes.h"
#include "log.h"
#include "ways.h"

#define PAGE_UP(n) (((n) + (PAGE - 1)) & ~(PAGE - 1))

#define RANGES ((volatile struct range *)PLAIN_BASE)
#define KEPT ((volatile struct kept_file *)KEPT_BASE)

// Bytes of a change of no file.
enum { CHANGE_SHORT = __builtin_offsetof(struct change, file) };

static __attribute__((noinline)) u64 is_plain(u64 start, u64 end) {
  if (start >= end) return 0;
  for (u64 i = 0; i < S->plains; i++)
    if (RANGES[i].start <= start && end <= RANGES[i].end) return 1;
  return 0;
}

static __attribute__((noinline)) void remove(u64 i) {
  u64 last = S->plains - 1;
  RANGES[i].start = RANGES[last].start;
  RANGES[i].end = RANGES[last].end;
  S->plains = last;
}

// The range is one from here on, with those that it touches. Where there is no room, the shortest stays out of the list.
static __attribute__((noinline)) void add_plain(u64 start, u64 end) {
  for (u64 i = 0; i < S->plains;) {
    u64 first = RANGES[i].start, last = RANGES[i].end;
    if (first > end || start > last) {
      i++;
      continue;
    }
    start = first < start ? first : start;
    end = last > end ? last : end;
    remove(i);
  }
  if (S->plains >= PLAIN_MAX) {
    // The shortest one gives way: it is likely to be a library's, which never changes again.
    u64 least = 0;
    for (u64 i = 1; i < PLAIN_MAX; i++)
      if (RANGES[i].end - RANGES[i].start < RANGES[least].end - RANGES[least].start) least = i;
    if (end - start <= RANGES[least].end - RANGES[least].start) return;
    remove(least);
  }
  u64 count = S->plains;
  RANGES[count].start = start;
  RANGES[count].end = end;
  S->plains = count + 1;
}

// Nothing is mapped there any more. It lies in one of the ranges.
static __attribute__((noinline)) void cut_plain(u64 start, u64 end) {
  for (u64 i = 0; i < S->plains; i++) {
    u64 first = RANGES[i].start, last = RANGES[i].end;
    if (first > start || end > last) continue;
    remove(i);
    if (first < start) add_plain(first, start);
    if (end < last) add_plain(end, last);
    return;
  }
}

static u64 is_read_only(u64 fd) {
  u64 args[6] = {fd, F_GETFL, 0, 0, 0, 0};
  i64 flags = hooks_make(args, __NR_fcntl);
  S->phase = 1;
  return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY;
}

// Which kept file is behind a descriptor? 0: none. To be shared, it must be one that is not open for writing here, and that nobody
// has mapped where it may change.
static __attribute__((noinline)) u64 find_kept(u64 fd, u64 is_shared) {
  if (!KEPT[0].file || (is_shared && !is_read_only(fd))) return 0;
  volatile struct stat *stat = (volatile struct stat *)SCRATCH_BASE;
  u64 args[6] = {fd, SCRATCH_BASE, 0, 0, 0, 0};
  i64 result = hooks_make(args, __NR_fstat);
  S->phase = 1;
  if (result) return 0;
  if (is_shared && is_mapped(stat->st_dev, stat->st_ino)) return 0;
  u64 mtime = stat->st_mtime * 1000000000ul + stat->st_mtime_nsec, ctime = stat->st_ctime * 1000000000ul + stat->st_ctime_nsec;
  for (u64 i = 0; i < KEPT_MAX && KEPT[i].file; i++) {
    if (KEPT[i].ino != stat->st_ino || KEPT[i].dev != stat->st_dev) continue;
    u64 is_same = KEPT[i].len == (u64)stat->st_size && KEPT[i].mtime_ns == mtime && (!KEPT[i].ctime_ns || KEPT[i].ctime_ns == ctime);
    return is_same ? KEPT[i].file : 0;
  }
  return 0;
}

// What a call comes to, as far as that is known before it is made. 0: it cannot be made here.
static u64 plan_change(u64 *a, u64 nr, struct change *c) {
  u64 len = PAGE_UP(a[1]);
  *c = (struct change){.nr = nr, .addr = a[0], .len = len, .how = a[2]};
  u64 is_range = !(a[0] & (PAGE - 1)) && len >= a[1] && len && a[0] + len > a[0];
  switch (nr) {
  case __NR_mmap:
    if (a[2] & ~(u64)PROT_PLAIN || !len || len < a[1]) return 0;
    if (a[3] & MAP_FIXED && !(is_range && is_plain(a[0], a[0] + len))) return 0;
    if (a[3] & MAP_ANONYMOUS) return (a[3] & MAP_TYPE) == MAP_PRIVATE && !(a[3] & ~(u64)MAP_PLAIN);
    if (a[3] & ~(u64)(MAP_KEPT | MAP_TYPE) || !(c->file = find_kept(a[4], (a[3] & MAP_TYPE) != MAP_PRIVATE))) return 0;
    c->offset = a[5];
    return 1;
  case __NR_mprotect:
    return !(a[2] & ~(u64)PROT_PLAIN) && is_range && is_plain(a[0], a[0] + len);
  case __NR_munmap:
    c->how = 0;
    return is_range && is_plain(a[0], a[0] + len);
  case __NR_madvise:
    switch ((u32)a[2]) {
    case MADV_FREE:
      // When the kernel would take it is not known.
      c->how = a[2] = MADV_DONTNEED;
      break;
    case MADV_DONTNEED:
      c->how = MADV_DONTNEED;
      break;
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_COLD:
    case MADV_PAGEOUT:
      // They change nothing that the program could see.
      c->nr = 0;
      break;
    default:
      return 0;
    }
    return is_range && is_plain(a[0], a[0] + len);
  case __NR_arch_prctl:
    *c = (struct change){.nr = nr, .addr = a[1], .how = a[0]};
    return a[0] == ARCH_SET_FS;
  case __NR_set_tid_address:
    *c = (struct change){.nr = nr, .addr = a[0]};
    return 1;
  case __NR_brk:
    // It shrinks by what is plain.
    if (!S->brk) return 0;
    return !a[0] || PAGE_UP(a[0]) >= PAGE_UP(S->brk) || is_plain(PAGE_UP(a[0]), PAGE_UP(S->brk));
  }
  return 0;
}

// The heap has this end now.
static void move_heap(u64 brk, struct change *c) {
  u64 old = PAGE_UP(S->brk), new = PAGE_UP(brk);
  S->brk = brk;
  c->nr = 0;
  if (new > old) {
    *c = (struct change){.nr = __NR_mmap, .addr = old, .len = new - old, .how = PROT_PLAIN};
    add_plain(old, new);
  } else if (new < old) {
    *c = (struct change){.nr = __NR_munmap, .addr = new, .len = old - new};
    cut_plain(new, old);
  }
}

// Recording. A call that fails leaves no trace: it is made once more, and its supervisor finds out how far it came.
static u64 change(struct frame *f, u64 nr, u64 check) {
  u64 a[6], pos = S->pos;
  for (u64 i = 0; i < 6; i++) a[i] = f->args[i];
  struct change c;
  u64 room = S->end - pos, need = sizeof(struct entry) + sizeof c;
  if (!S->changes || S->stop || is_judged(nr) || room < need || pos > S->soon) return hooks_leave_traced();
  if (!plan_change(a, nr, &c)) return hooks_leave_traced();
  i64 result = hooks_make(a, nr);
  if ((u64)result >= -4096ul) return hooks_leave_traced();
  switch (nr) {
  case __NR_mmap:
    c.addr = result;
    // Above that the stack may grow.
    if (c.addr + c.len <= S->changes) add_plain(c.addr, c.addr + c.len);
    break;
  case __NR_munmap:
    cut_plain(c.addr, c.addr + c.len);
    break;
  case __NR_brk:
    move_heap(result, &c);
    break;
  }
  struct entry *e = next_entry();
  u64 len = sizeof *e;
  e->check = check;
  e->result = result;
  if (c.nr) {
    *(struct change *)(e + 1) = c;
    len += c.file ? sizeof c : CHANGE_SHORT;
  }
  e->head = nr | len << (EIGHTS - 3);
  S->pos = pos + len;
  f->rax = result;
  S->count++;
  return hooks_leave();
}

// Replay.
static u64 change_again(struct frame *f, u64 nr, u64 check) {
  if (S->pos == S->end) return hooks_leave_traced();
  struct entry *e = next_entry();
  if ((e->head & CALL) != nr || e->check != (u32)check) hooks_diverged();
  u64 len = (u64)(e->head >> EIGHTS) << 3;
  if (len > sizeof *e) {
    const struct change *c = (const struct change *)(e + 1);
    u64 is_map = c->nr == __NR_mmap;
    u64 a[6] = {c->addr, c->len, c->how, is_map ? MAP_AGAIN : 0, is_map ? -1ul : 0, 0};
    // Its supervisor has put a descriptor in the place of the file's number.
    if (len > sizeof *e + CHANGE_SHORT) a[3] = MAP_KEPT_AGAIN, a[4] = c->file, a[5] = c->offset;
    if (c->nr == __NR_arch_prctl) a[0] = c->how, a[1] = c->addr, a[2] = 0;
    if (c->nr != __NR_set_tid_address && hooks_change(a, c->nr) != (is_map ? (i64)c->addr : 0)) hooks_diverged();
  }
  S->pos += len;
  f->rax = e->result;
  S->count++;
  return hooks_leave();
}

u64 hooks_memory(struct frame *f, u64 nr) {
  if (S->counted) return hooks_leave_traced();
  u64 check = (u32)hash(nr, f->args);
  return S->replay ? change_again(f, nr, check) : change(f, nr, check);
}
