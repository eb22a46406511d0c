/* Checkpoints of a running program, and ways back to them: for programs that run under `bis run` or `bis record`.
 *
 * There is nothing to link. Each function is one system call with a number that no kernel has: where the program
 * does not run under bis, it returns -ENOSYS at once. A negative result is the number of an error (<errno.h>),
 * negated; errno itself is not touched.
 *
 * What comes back with a way back, and what does not, is in docs/checkpoints.md. */
#ifndef BIS_H
#define BIS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A checkpoint: a number above 0 that no other one has. */
typedef uint64_t bis_handle;

/* The ways back. */
enum {
  /* All threads go on from the checkpoint, and may take another path. */
  BIS_RETRY = 1,
  /* What was done since the checkpoint is executed again, exactly; then the program goes on behind its call. */
  BIS_REPLAY = 2
};

#define BIS_CALL 0x0b150000

static inline long bis_call_(long operation, uint64_t first, uint64_t second) {
  long result;
  register uint64_t rsi __asm__("rsi") = first;
  register uint64_t rdx __asm__("rdx") = second;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"((long)BIS_CALL), "D"(operation), "r"(rsi), "r"(rdx)
                   : "rcx", "r11", "memory");
  return result;
}

/* Keeps the whole process as it is now: memory, and all threads. Returns 0, and writes the handle; and returns
 * again, like setjmp, each time that the process has gone back to it: 1 after the first time, 2 after the second.
 * -EAGAIN: a thread is in the middle of something that cannot be kept (a vfork); -ENOMEM: there is no room. */
__attribute__((returns_twice, unused)) static inline int bis_checkpoint(bis_handle *handle) {
  return (int)bis_call_(3, (uint64_t)(uintptr_t)handle, 0);
}

/* Goes back to a checkpoint of this process, in this way. With BIS_RETRY it returns only if it cannot. With
 * BIS_REPLAY it returns 0 when what was done since the checkpoint (since it returned last) was executed again, under
 * a debugger if `bis record --on-replay` asks for one: an exact repetition ends where it was asked for, and so the
 * program goes on behind this call; -EIO: that was not possible. -EINVAL: there is no such checkpoint, or no such
 * way. Of BIS_RETRY: -ESRCH: a thread of it has ended and cannot come back; -EPERM: the calling thread has begun after it;
 * -EBUSY: a thread is in a call that cannot be left, or a process that shares the memory has begun since;
 * -EOPNOTSUPP: shared memory was unmapped since that cannot be mapped again. */
__attribute__((unused)) static inline int bis_rollback(bis_handle handle, int how) {
  return (int)bis_call_(4, handle, (uint64_t)how);
}

/* Forgets a checkpoint, and gives its memory back. -EINVAL: this process has no such checkpoint. */
__attribute__((unused)) static inline int bis_discard(bis_handle handle) {
  return (int)bis_call_(5, handle, 0);
}

/* In which way the process came back to a checkpoint last: 0 (it has not), BIS_RETRY, or BIS_REPLAY.
 * -EINVAL: this process has no such checkpoint. */
__attribute__((unused)) static inline int bis_how(bis_handle handle) { return (int)bis_call_(6, handle, 0); }

#ifdef __cplusplus
}
#endif

#endif
