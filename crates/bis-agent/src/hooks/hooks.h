// What the hooks and the supervisor share: addresses, the state page, the table of hooked calls, the log's entries.
// `shared.rs` beside this file says the same in Rust; a test compares the two.
#pragma once

#define CPUID_BASE 0x70006000
#define TABLE_BASE 0x70008000
#define AREA_BASE 0x7000b000
#define FD_CLASS_BASE 0x7000c000
#define FILES_BASE (AREA_BASE + 0x200)
#define FILES_BITS 8192
#define COPIED_BASE (AREA_BASE + 0x800)
#define STACK_TOP 0x7000f000
#define SCRATCH_BASE 0x7000f000
#define SCRATCH_LEN 0x4000
#define VECTORS (SCRATCH_BASE + 0x3000) // the program's array of vectors, copied
#define VECTORS_MAX 128
#define MANY (SCRATCH_BASE + 0x2000)     // what is wanted of several messages
#define MANY_MAX 64
#define MANY_VECTORS (SCRATCH_BASE + 0x3800) // the kernel's vectors for them, one each
#define ONE_VECTOR (SCRATCH_BASE + 0x3c00) // the kernel's
#define NO_TIME (SCRATCH_BASE + 0x3c20)    // a struct timespec of zeros
#define POLLFD (SCRATCH_BASE + 0x3c40)
#define LOG_BASE 0x70013000
#define LOG_LEN 0xed000
// A log that is longer than this is taken at the next chance: what stays in the caches is written and copied faster.
#define LOG_SOON 0x18000

#define CALLS 512
#define FDS 4096

// Offsets in the state, for assembly.
#define STATE_RSP (AREA_BASE + 0x30)
#define STATE_DONE (AREA_BASE + 0x38)
#define STATE_IN_HOOK (AREA_BASE + 0x40)
#define STATE_EXIT (AREA_BASE + 0x48)
#define STATE_BAIL (AREA_BASE + 0x50)
#define STATE_PHASE (AREA_BASE + 0x58)
#define STATE_SAVED_RAX (AREA_BASE + 0x78)
#define STATE_SAVED_RCX (AREA_BASE + 0x130)
#define STATE_SAVED_R11 (AREA_BASE + 0x138)
#define STATE_WHOLE (AREA_BASE + 0x140)

// The number of a system call that does not exist: the end of a hook tells the supervisor.
#define SAFEPOINT 0x626973

// What the log calls the instructions that ask the processor for a number: beyond the numbers of system calls, in nine bits.
#define RDRAND 0x1fa
#define RDSEED 0x1fb
#define RDPID 0x1fc
#define RDTSC 0x1fd
#define RDTSCP 0x1fe

// A number that no system call has: the kernel says ENOSYS.
#define NO_CALL 0x7fff

// The last byte of what the kernel's functions return where they would make a system call.
#define FALLBACK 0x7f

// The result of a call that was not made after all: no system call returns it.
#define BAILED (-4096)

#ifndef __ASSEMBLER__

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;

// At AREA_BASE; shared with the supervisor while recording.
struct state {
  u64 pos;       // bytes of the log that are used
  u64 end;       // recording: its capacity; replay: the bytes that are to be consumed
  u64 replay;    // all ones in replay, else 0
  u64 stop;      // recording: the next hook lets its call be traced
  u64 exit_stop; // recording: the hook under way ends at the safepoint
  u64 alone;     // nobody waits while this task does: a call may wait in its hook
  u64 rsp;       // the program's
  u64 done;      // where the program goes on: after its instruction, in the trampoline
  u64 in_hook;   // 1 from entry to exit
  u64 exit;      // where a hook of another instruction than a system call will jump to
  u64 bail;      // recording: do not make the call
  u64 phase;     // 1: the call has not been made, 2: it has
  u64 end_stop;  // replay: the hook that consumes the last byte ends at the safepoint
  u64 no_fds;    // the classes of descriptors mean nothing now
  u64 watched;   // files that may be written are mapped somewhere: FILES says which
  u64 saved_rax; // at the safepoint
  u64 count;     // hooked calls so far
  u64 writing;   // the call under way may change a regular file
  u64 outputs[4]; // device and inode of standard output, and of standard error
  u64 devices[2]; // of /proc and /sys
  u64 ticks;      // recording: the time stamp counter can be read
  u64 clocks[3];  // recording: the kernel's clock_gettime, gettimeofday and time; 0: not to be called
  u64 getcpu;     // the same for getcpu
  u64 clone_min;  // recording: reads of this much are traced, but for those of descriptors that are copied; 0: none
  u64 judged[8];  // recording: a bit for each call that is to be traced, because the program has a filter
  u64 saved_rcx;  // the program's, on the way to a hook that needs one register; and, with r11, at a whole safepoint
  u64 saved_r11;
  u64 whole;      // recording: the task is at a safepoint at which rcx and r11 are the program's
  u64 in_proc;    // recording: relative paths may lead into /proc
  u64 counted;    // branches are counted: the kernel's functions are never called, they make too many
  u64 cut;        // recording: 1 + the descriptor of a mapped file that a hooked open has cut
  u64 waits;      // the call that was left last was tried, or asked about, and would have waited
};

#define S ((volatile struct state *)AREA_BASE)
#define FD_CLASS ((volatile u8 *)FD_CLASS_BASE)
// A bit for each file that is mapped somewhere, found by device and inode; others may have the same.
#define FILES ((volatile u64 *)FILES_BASE)
// A bit for each descriptor: its large reads are not for the supervisor.
#define COPIED ((volatile u8 *)COPIED_BASE)

// Classes of descriptors: a zero says nothing.
#define FD_PLAIN 1   // what is written there concerns nobody but the kernel
#define FD_FILE 2    // the same, of a regular file that nobody has mapped
#define FD_SPECIAL 3 // standard output, /proc, ...: traced
#define FD_SHOWN 4   // the supervisor says what is read there: traced, too

// The kinds of a piece of memory behind an argument.
enum { OUT_FIXED = 1, OUT_ARG, OUT_ARG32, OUT_RET, OUT_RET32, OUT_DEREF, INOUT_FIXED, INOUT_ARG32, REM_FIXED };
// Beside those of the table: pieces whose place and size a shape has found in the program's memory.
enum { GIVEN_IN = 32, GIVEN_OUT, GIVEN_RET };

// Flags of a row.
enum {
  HOOKED = 1,        // may be made here
  WRITES_FD = 2,     // only if argument 0 (of COPY, 2) is a descriptor that is plain
  TAKES_PATH0 = 4,   // only if argument 0 is no path of /proc or /dev
  TAKES_PATH1 = 8,   // the same for argument 1, relative to a descriptor in argument 0
  CLEARS_FD0 = 16,   // the class of descriptor 0 is gone
  CLEARS_FD1 = 32,   // of descriptor 1
  WAITS_IN = 64,     // waits until descriptor 0 can be read
  WAITS_OUT = 128,   // until it can be written
  ALONE_ONLY = 256,  // waits in ways that cannot be tried
  ALWAYS = 512,      // its memory is written whatever the result is
  ASKS = 1024,       // waits unless descriptor 0 has O_NONBLOCK
  ALIGNED = 2048,    // reads descriptor 0; the kernel may want memory that is aligned, and says EINVAL for what is not
  MAKES_FD = 4096,   // the result is a new descriptor that concerns nobody: of a socket, an eventfd
  MAKES_TWO = 8192,  // the same for the two that its memory names
  COPIES_FD = 16384, // the result is one like descriptor 0
  QUICK = 32768,     // no shape, at most one piece, nothing to know of descriptors or paths
};

// Flags of rows whose calls make, replace or close descriptors.
enum { SETTLES = CLEARS_FD0 | CLEARS_FD1 | MAKES_FD | MAKES_TWO | COPIES_FD };

#define O_TRUNC 01000
#define PROC_SUPER_MAGIC 0x9fa0

enum { DONTWAIT = 0x40, WAITFORONE = 0x10000 }; // MSG_*

// Shapes beside the plain one.
enum { PLAIN = 0, FCNTL, IOCTL, FUTEX, OPEN, POLL, EPOLL, SELECT, VECTOR, WAIT, MESSAGE, RECEIVE, SEND, PPOLL, SOCKOPT, PRCTL, COPY, MESSAGES, PRLIMIT, REFUSED, RANDOM };

struct piece {
  u8 arg;
  u8 kind;
  u8 of; // the argument that holds the count or the address of the length
  u8 pad;
  u16 size;
};

struct row {
  u16 flags;
  u8 shape;
  u8 pieces;
  u8 flags_arg; // OPEN, RECEIVE, SEND, MESSAGE, MESSAGES, WAIT: the argument with the flags
  u8 pad;
  struct piece piece[3];
};

#define TABLE ((const struct row *)TABLE_BASE)

// An entry of the log; its data follow, each piece on 8 bytes.
struct entry {
  u32 head;  // bits 0 to 8 the call's number, 9 to 11 LEFT, ASKED and LATE, from 12 on the eights of all of it
  u32 check; // a hash of the arguments
  i64 result;
};

// Of an entry: the call would have waited, and is a traced one; its descriptor was asked whether it is nonblocking (of an open: it
// led into /proc); it was found only when nothing was left to ask that the call would be a traced one.
enum { LEFT = 1 << 9, ASKED = 1 << 10, LATE = 1 << 11 };

// The registers of the program, as the entry pushes them.
struct frame {
  u64 args[6]; // rdi, rsi, rdx, r10, r8, r9
  u64 rax, rflags;
};

// All of them, as the processor counts them (rsp is not given back), as the entry for rdrand, rdseed and rdpid pushes them.
struct chance_frame {
  u64 regs[16];
  u64 rflags;
};

// The same, as the entries for rdtsc and rdtscp push them.
struct counter_frame {
  u64 rax, rcx, r11, r10, r9, r8, rdi, rsi, rflags;
};

#endif
