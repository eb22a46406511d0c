// A tracer keeps its tracee from making a call, and gives it a result at the exit, together with the number that it had
// taken away at the entry: the call is not made then either. So does whoever emulates calls by putting another one in
// their places.
#include "stepping.h"

enum { RESULT = 1234 };

static int tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  CHECK(syscall(SYS_kill, getpid(), SIGSTOP) == 0);
  for (int i = 0; i < 3; i++) {
    CHECK(syscall(SYS_mkdir, "skipped", 0700) == RESULT);
    CHECK(syscall(SYS_getppid) == RESULT);
    CHECK(syscall(SYS_getpid) == getpid());
  }
  _exit(5);
}

static struct user_regs_struct next(pid_t pid) {
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0 && wait_stop(pid) == (SIGTRAP | 0x80));
  return regs_of(pid);
}

static void put(pid_t pid, struct user_regs_struct regs, unsigned long nr, long result) {
  regs.orig_rax = nr;
  regs.rax = (unsigned long)result;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
}

// The next call, in whose place there is another one (-1, -2: none).
static void replaced(pid_t pid, long nr, long instead) {
  struct user_regs_struct regs = next(pid);
  CHECK((long)regs.orig_rax == nr);
  put(pid, regs, (unsigned long)instead, -ENOSYS);
  regs = next(pid);
  CHECK((long)regs.rax == (instead == SYS_gettid ? pid : -ENOSYS));
  put(pid, regs, (unsigned long)nr, RESULT);
  CHECK((long)regs_of(pid).orig_rax == nr);
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  CHECK(wait_stop(pid) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  static const long instead[] = {-1, -2, SYS_gettid};
  for (int i = 0; i < 3; i++) {
    replaced(pid, SYS_mkdir, instead[i]);
    replaced(pid, SYS_getppid, instead[i]);
    CHECK(next(pid).orig_rax == SYS_getpid && (pid_t)next(pid).rax == pid);
    CHECK(next(pid).orig_rax == SYS_getpid && (pid_t)next(pid).rax == pid);
    printf("round %d\n", i);
  }
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 5);
  CHECK_ERRNO(access("skipped", F_OK), ENOENT);
  return guest_ok();
}
