// Calls whose memory depends on what is asked: by a command or an option, or by structures in the program's memory.
#include <asm/fcntl.h>
#include <asm/ioctls.h>
#include <asm/resource.h>
#include <asm/socket.h>
#include <asm/stat.h>
#include <asm/termbits.h>
#include <asm/termios.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/prctl.h>
#include <linux/stat.h>
#include <linux/tcp.h>
#include <linux/wait.h>

#include "classes.h"
#include "plan.h"

// The kernel's header of signals wants a C library's size_t.
enum { SIGSEGV = 11 };
// SOL_*, which the kernel's headers for programs do not have.
enum { SOL_IP = 0, SOL_IPV6 = 41, SOL_PACKET = 263, SOL_XDP = 283 };
// The options of netfilter's tables at SOL_IP have numbers from this one on (linux/netfilter_ipv4/ip_tables.h).
enum { TABLES_FIRST = 128, TABLES_LAST = 131 };
// IPT_SO_SET_REPLACE, which is IP6T_SO_SET_REPLACE, too; and ARPT_SO_SET_REPLACE.
enum { RULES_REPLACE = 64, ARP_REPLACE = 96 };

static u64 shape_fcntl(struct plan *p) {
  switch ((u32)p->args[1]) {
  case F_DUPFD:
  case F_DUPFD_CLOEXEC:
  case F_GETFD:
  case F_SETFD:
  case F_GETFL:
  case F_SETFL:
  case F_SETLK:
  case F_OFD_SETLK:
  case F_GETPIPE_SZ:
  case F_ADD_SEALS:
  case F_GET_SEALS:
    return 1;
  }
  return 0;
}

// The one piece of a request; 0: not one of those that are known.
static u64 plan_out(struct plan *p, u64 arg, u64 size) {
  p->piece[0] = (struct piece){.arg = arg, .kind = OUT_FIXED, .size = size};
  p->pieces = 1;
  return 1;
}

static u64 shape_ioctl(struct plan *p) {
  switch ((u32)p->args[1]) {
  case TCGETS:
    return plan_out(p, 2, sizeof(struct termios));
  case TIOCGWINSZ:
    return plan_out(p, 2, sizeof(struct winsize));
  case FIONREAD:
  case TIOCGPGRP:
  case TIOCOUTQ:
  case TIOCGPTN:
    return plan_out(p, 2, 4);
  case FIONBIO:
  case FIONCLEX:
  case FIOCLEX:
  case TCSETS:
  case TIOCSPGRP:
    return 1;
  case FICLONE:
  case FICLONERANGE:
    __atomic_exchange_n(&S->writing, 1, __ATOMIC_SEQ_CST);
    p->writes = 1;
    return 1;
  }
  return 0;
}

// Not PR_SET_NAME: a debugger shows what threads are called, and learns it from the call's event.
static u64 shape_prctl(struct plan *p) {
  switch ((u32)p->args[0]) {
  case PR_CAPBSET_READ:
  case PR_SET_VMA:
    return 1;
  case PR_GET_NAME:
    return plan_out(p, 1, 16);
  }
  return 0;
}

// Options with pointers of their own, or that map memory.
static u64 shape_sockopt(struct plan *p) {
  u64 level = (u32)p->args[1], name = (u32)p->args[2];
  if (p->nr == __NR_setsockopt) {
    // The counters of the rules that there were are written; tables of rules hold pointers.
    u64 has_rules = level == SOL_IP && (name == ARP_REPLACE || (name >= TABLES_FIRST && name <= TABLES_LAST));
    u64 replaces = (level == SOL_IP || level == SOL_IPV6) && name == RULES_REPLACE;
    u64 has_ring = level == SOL_XDP || (level == SOL_PACKET && (name == PACKET_RX_RING || name == PACKET_TX_RING));
    return !has_ring && !has_rules && !replaces;
  }
  if (level == SOL_IP) return name < TABLES_FIRST || name > TABLES_LAST;
  return !(level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE) && !(level == SOL_SOCKET && name == SO_GET_FILTER);
}

static u64 shape_futex(struct plan *p) {
  const u64 *a = p->args;
  u32 word;
  switch ((u32)a[1] & FUTEX_CMD_MASK) {
  case FUTEX_WAKE:
  case FUTEX_WAKE_BITSET:
    return 1;
  case FUTEX_WAIT:
  case FUTEX_WAIT_BITSET:
    // Only where it does not wait at all.
    return !hooks_copy(&word, (void *)a[0], 4) && word != (u32)a[2];
  }
  return 0;
}

// Does the path of an open lead to a file that somebody has mapped, or is that not to be found out?
static u64 names_mapped(const struct plan *p, u64 flags) {
  volatile struct stat *stat = (volatile struct stat *)SCRATCH_BASE;
  stat->st_dev = stat->st_ino = 0;
  u64 has_folder = p->nr == __NR_openat;
  u64 folder = has_folder ? p->args[0] : (u64)AT_FDCWD, path = has_folder ? p->args[1] : p->args[0];
  u64 args[6] = {folder, path, SCRATCH_BASE, (flags & O_NOFOLLOW) ? AT_SYMLINK_NOFOLLOW : 0, 0, 0};
  i64 result = hooks_make(args, __NR_newfstatat);
  S->phase = 1;
  return (is_mapped(stat->st_dev, stat->st_ino) & !is(result)) | !is(result ^ BAILED);
}

// Has the file behind a descriptor more than is copied at once, or is that not to be found out? A device says nothing of its size.
u64 hooks_has_much(u64 fd) {
  volatile struct stat *stat = (volatile struct stat *)SCRATCH_BASE;
  stat->st_mode = stat->st_size = 0;
  u64 args[6] = {fd, SCRATCH_BASE, 0, 0, 0, 0};
  hooks_make(args, __NR_fstat);
  S->phase = 1;
  return is((stat->st_mode & S_IFMT) ^ S_IFREG) | below(COPY_MAX, (u64)stat->st_size);
}

static u64 shape_open(struct plan *p) {
  u64 flags = hooks_flags(p);
  // O_TRUNC changes a file that somebody may have mapped.
  if (flags & O_TRUNC) p->refused = names_mapped(p, flags);
  return 1;
}

// What all calls have in common that receive messages.
static u64 plan_receive(struct plan *p) {
  u64 flags = hooks_flags(p);
  // A task that is looked after while it waits for all would get less, as a signal would have it.
  p->refused = is(flags & MSG_WAITALL);
  return !(flags & (MSG_TRUNC | MSG_ERRQUEUE));
}

static u64 shape_receive(struct plan *p) { return plan_receive(p); }

static u64 shape_message(struct plan *p) { return plan_receive(p) && hooks_plan_message(p); }

static u64 shape_messages(struct plan *p) { return plan_receive(p) && hooks_plan_messages(p); }

static u64 shape_send(struct plan *p) {
  (void)p;
  return 1;
}

static u64 shape_copy(struct plan *p) {
  // It would get less, too. A program that copies a file may ask for as much as there can be.
  if (below(COPY_MAX, p->args[4])) p->refused = hooks_has_much(p->args[0]);
  return 1;
}

static u64 shape_random(struct plan *p) {
  // It would get less, too; up to 256 bytes come whole (random(7)).
  p->refused = below(256, p->args[1]) & !is(S->alone);
  return 1;
}

static u64 shape_disk(struct plan *p) {
  p->refused = !is(S->alone);
  return 1;
}

static u64 shape_rlimit(struct plan *p) {
  // A new limit is the recorder's business, and so is what the program sees of its address space's.
  return (u32)hooks_flags(p) != RLIMIT_AS && (p->nr != __NR_prlimit64 || p->args[2] == 0);
}

static u64 shape_vector(struct plan *p) {
  p->pieces = 1;
  return p->args[2] && hooks_plan_vectors(p, 0, p->args[1], p->args[2]);
}

static u64 shape_poll(struct plan *p) {
  hooks_plan_ms(p, p->args[2]);
  return 1;
}

static u64 shape_ppoll(struct plan *p) { return p->args[3] == 0 && hooks_plan_time(p, p->args[2]); }

static u64 shape_epoll(struct plan *p) {
  if (p->nr != __NR_epoll_pwait2) hooks_plan_ms(p, p->args[3]);
  else if (!hooks_plan_time(p, p->args[3])) return 0;
  return p->args[4] == 0 || p->nr == __NR_epoll_wait;
}

static u64 shape_select(struct plan *p) { return hooks_plan_select(p); }

static u64 shape_wait(struct plan *p) {
  // The recorder has tracees to tell of that the kernel does not know to be stopped.
  p->refused = !(hooks_flags(p) & WNOHANG);
  // Only the memory would say whether a `waitid` has found somebody.
  return p->nr != __NR_waitid || p->args[2];
}

static u64 shape_sigaction(struct plan *p) {
  p->refused = (u64)((u32)p->args[0] == SIGSEGV) & is(p->args[1]);
  return 1;
}

// What makes such a call knows all about it (`hooks_make`, `memory.c`).
static u64 shape_refused(struct plan *p) {
  (void)p;
  return 1;
}

static u64 shape_memfd(struct plan *p) {
  // "pulseaudio", of which the recorder thinks otherwise.
  u64 word = 0;
  return !hooks_copy(&word, (void *)p->args[0], 8) && word != 0x64756165736c7570;
}

static u64 shape_memory(struct plan *p) {
  (void)p;
  return 1;
}

// Whether it is there is found out in its place (`general.c`).
static u64 shape_exec(struct plan *p) {
  (void)p;
  return 1;
}

u64 hooks_shape(struct plan *p) {
  switch (p->row->shape) {
#define CASE(shape, function) \
  case shape: \
    return function(p);
    SHAPES(CASE)
#undef CASE
  }
  return 1;
}
