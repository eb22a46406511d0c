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
