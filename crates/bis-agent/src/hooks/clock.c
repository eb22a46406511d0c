// The clock: the functions of the vdso that read it, and the instructions that read the time stamp counter.
#include <asm/errno.h>
#include <asm/unistd.h>
#include <linux/time.h>

#include "log.h"
#include "ways.h"

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
    if (S->pos == S->end) return hooks_leave_traced();
    begin(nr, check);
    if (e->head & LEFT) return hooks_leave_marked(e, EARLY);
  } else {
    cpu_fn *ask = (cpu_fn *)S->getcpu;
    u32 cpu = 0, node = 0;
    if (S->stop || !ask || is_judged(nr) || S->end - S->pos < sizeof *e + 16) return hooks_call(f);
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
  f->rax = fault ? (u64)-EFAULT : (u64)result;
  S->count++;
  return hooks_leave();
}

// The functions of the vdso that read the clock: gettimeofday(to, zone), clock_gettime(clock, to), time(to). While
// recording, the kernel's own function is asked, where that is possible. What goes to the log is what `hooks_call` would
// have put there, so that a log of either is consumed by both, and both may do what the other has left.
u64 hooks_time(struct frame *f) {
  u64 nr = f->rax, *a = f->args;
  u64 is_clock = nr == __NR_clock_gettime, is_day = nr == __NR_gettimeofday;
  if ((is_day && a[1]) || S->counted) return hooks_call(f);
  if (nr == __NR_getcpu) return which_core(f);
  S->phase = 2;
  u64 user = is_clock ? a[1] : a[0];
  u64 size = user == 0 ? 0 : nr == __NR_time ? 8 : 16;
  struct entry *e = next_entry();
  u64 *data = (u64 *)(e + 1);
  u64 check = hash(nr, a);
  if (S->replay) {
    if (S->pos == S->end) return hooks_leave_traced();
    begin(nr, check);
    if (e->head & LEFT) return hooks_leave_marked(e, EARLY);
  } else {
    clock_fn *ask = (clock_fn *)S->clocks[is_clock ? 0 : is_day ? 1 : 2];
    if (S->stop || !ask || S->end - S->pos < sizeof *e + 16) return hooks_call(f);
    i64 told = is_clock ? ask(a[0], data) : ask(is_day ? (u64)data : 0, 0);
    if ((told & 0xff) == FALLBACK && nr != __NR_time) return hooks_call(f);
    if (nr == __NR_time) data[0] = told;
    begin(nr, check);
    e->result = told;
  }
  i64 result = e->result;
  u64 fault = 0;
  if (result >= 0 && size == 16) fault = hooks_put((void *)user, data[0], data[1]);
  if (result >= 0 && size == 8) fault = hooks_copy((void *)user, data, 8);
  finish(e, sizeof *e + size, 0);
  f->rax = fault ? (u64)-EFAULT : (u64)result;
  S->count++;
  return hooks_leave();
}

// What the time stamp counter is, where it cannot be read: a clock of the kernel that is the same counter in other units
// tells it, and the core where that is asked for. 0: that cannot be said. Only while recording, and where no branches are
// counted.
static u64 told_counter(u32 *core) {
  u64 time[2], args[6] = {CLOCK_MONOTONIC_RAW, (u64)time};
  if (core) {
    cpu_fn *ask = (cpu_fn *)S->getcpu;
    u32 cpu = 0, node = 0;
    if (!ask || is_judged(__NR_getcpu) || ask(&cpu, &node, 0)) return 0;
    *core = cpu | node << 12; // as the kernel sets IA32_TSC_AUX
  }
  if (is_judged(__NR_clock_gettime) || hooks_make(args, __NR_clock_gettime)) return 0;
  u64 since = time[0] * 1000000000 + time[1] - S->counter_at[1];
  if (since >= S->counter_for) return 0;
  return S->counter_at[0] + (u64)((unsigned __int128)since * S->counter_rate >> 32);
}

// The rdtsc and rdtscp instructions; returns what rdx is to be. There is no safepoint: rcx and r11, which it would take,
// are the program's. A signal that comes meanwhile waits for the next hook, which is left then, or for a pause.
u64 hooks_counter(struct counter_frame *f, u64 kind) {
  S->phase = 2;
  u64 done = S->done;
  u64 is_p = kind == NR_RDTSCP;
  u64 len = sizeof(struct entry) + 8 * is_p;
  u64 room = S->end - S->pos;
  u64 told = 0;
  u32 core_told = 0;
  if (S->counter_rate && !S->stop) told = told_counter(is_p ? &core_told : 0);
  u64 no = S->stop | (is(!S->ticks) & is(!told)) | below(room, len);
  u64 high = done;
  if (pick(!(S->pos ^ S->end), is(no))) {
    S->exit = done - 2 - is_p;
  } else {
    struct entry *e = begin(kind, done);
    u64 *core = (u64 *)(e + 1);
    // In replay it is left out, by a jump that the compiler does not see: one branch both ways.
    u64 value = pick((u64)e->result, told), known = S->replay | told;
    u64 low = (u32)value, up = value >> 32, aux = 0;
    if (is_p) {
      aux = pick(*core, core_told);
      __asm__ volatile("test %3, %3; jnz 1f; rdtscp; 1:" : "+a"(low), "+d"(up), "+c"(aux) : "r"(known) : "cc");
      *core = aux;
      f->rcx = aux;
    } else {
      __asm__ volatile("test %2, %2; jnz 1f; rdtsc; 1:" : "+a"(low), "+d"(up) : "r"(known) : "cc");
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
