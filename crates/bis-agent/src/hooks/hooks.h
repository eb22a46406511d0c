// What only the hooks know of their memory, and the frames in which they find the program's registers. What the supervisor knows,
// too, is in `shared.h`, which the build makes.
#pragma once

#include "shared.h"

#define STACK_TOP SCRATCH_BASE
#define VECTORS (SCRATCH_BASE + 0x3000) // the program's array of vectors, copied
#define VECTORS_MAX 128
#define MANY (SCRATCH_BASE + 0x2000) // what is wanted of several messages
#define MANY_MAX 64
#define MANY_VECTORS (SCRATCH_BASE + 0x3800) // the kernel's vectors for them, one each
#define ONE_VECTOR (SCRATCH_BASE + 0x3c00)   // the kernel's
#define NO_TIME (SCRATCH_BASE + 0x3c20)      // a struct timespec: no time, or little
#define POLLFD (SCRATCH_BASE + 0x3c40)

// A number that no system call has: the kernel says ENOSYS.
#define NO_CALL 0x7fff

// The result of a call that was not made after all: no system call returns it.
#define BAILED (-4096)

#ifndef __ASSEMBLER__

_Static_assert(VECTORS + 16 * VECTORS_MAX <= MANY_VECTORS, "the vectors of a call");
_Static_assert(MANY_VECTORS + 16 * MANY_MAX <= ONE_VECTOR, "the vectors of several messages");
_Static_assert(POLLFD + 8 <= SCRATCH_BASE + SCRATCH_LEN, "scratch memory");

#define S ((volatile struct state *)AREA_BASE)
#define TABLE ((const struct row *)TABLE_BASE)

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

// The registers of a frame, as the entries for rdtsc and rdtscp push them.
struct counter_frame {
  u64 rax, rcx, r11, r10, r9, r8, rdi, rsi, rflags;
};

// The instructions of `entry.S`.
extern i64 hooks_make(const u64 *args, u64 nr);
extern i64 hooks_change(const u64 *args, u64 nr);
extern u64 hooks_copy(void *to, const void *from, u64 len);
extern u64 hooks_touch(void *at, u64 len);
extern u64 hooks_put(void *to, u64 first, u64 second);
extern void hooks_safepoint(void);
extern void hooks_safepoint_whole(void);
extern void hooks_diverged(void) __attribute__((noreturn));

#endif
