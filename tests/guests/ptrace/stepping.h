// What the guests share that step a child.
#include "../guest.h"

#include <sys/ptrace.h>
#include <sys/user.h>

static inline int wait_stop(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
  return WSTOPSIG(status);
}

static inline struct user_regs_struct regs_of(pid_t pid) {
  struct user_regs_struct regs;
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  return regs;
}

static inline int step(pid_t pid) {
  CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
  return wait_stop(pid);
}

// Lets it go on to its own int3.
__attribute__((unused)) static inline void go_to_trap(pid_t pid) {
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(wait_stop(pid) == SIGTRAP);
}

// A step each from one of these instructions to the next, and one from the last; the program sees no trap flag.
__attribute__((unused)) static inline void step_along(pid_t pid, const unsigned long *from, const unsigned long *end) {
  for (const unsigned long *place = from; place < end; place++) {
    struct user_regs_struct regs = regs_of(pid);
    if (regs.rip != *place)
      fprintf(stderr, "at %llx, instruction %ld is at %lx\n", regs.rip, place - from, *place);
    CHECK(regs.rip == *place && !(regs.eflags & 0x100));
    CHECK(step(pid) == SIGTRAP);
  }
}
