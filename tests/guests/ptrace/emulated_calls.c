// Calls that a tracer makes for its tracee (PTRACE_SYSEMU): none of them is made by the kernel, and the tracee goes on
// with what its tracer has put into its registers.
#include "../guest.h"
#include <sys/ptrace.h>
#include <sys/user.h>

#ifndef PTRACE_SYSEMU
#define PTRACE_SYSEMU 31
#define PTRACE_SYSEMU_SINGLESTEP 32
#endif

static long raw(long nr, long first) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(nr), "D"(first), "S"(2l), "d"(3l) : "rcx", "r11", "memory");
  return result;
}

static int child(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  CHECK(raw(SYS_getppid, 1) == 4711);
  // A number that no kernel has, and a call that would end it.
  CHECK(raw(100000, 1) == -ENOSYS);
  CHECK(raw(SYS_exit_group, 9) == 17);
  CHECK(raw(SYS_getuid, 0) == 5);
  // Made by the kernel again.
  CHECK(raw(SYS_getpid, 0) == getpid());
  _exit(3);
}

static int next(pid_t pid, int how) {
  int status;
  CHECK(ptrace(how, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, 0) == pid);
  return status;
}

static struct user_regs_struct at_call(pid_t pid, int status, long nr) {
  struct user_regs_struct regs;
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  CHECK((long)regs.orig_rax == nr && (long)regs.rax == -ENOSYS);
  return regs;
}

static void answer(pid_t pid, struct user_regs_struct regs, long result) {
  regs.rax = result;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return child();
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  // From one call to the next: no stop shows that one has come back.
  status = next(pid, PTRACE_SYSEMU);
  while (WIFSTOPPED(status)) {
    struct user_regs_struct regs;
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    if (regs.orig_rax == SYS_getppid) break;
    // What the C library does behind its raise().
    answer(pid, at_call(pid, status, regs.orig_rax), 0);
    status = next(pid, PTRACE_SYSEMU);
  }
  answer(pid, at_call(pid, status, SYS_getppid), 4711);
  at_call(pid, next(pid, PTRACE_SYSEMU), 100000);
  answer(pid, at_call(pid, next(pid, PTRACE_SYSEMU), SYS_exit_group), 17);
  // By single steps, up to the next call.
  int steps = 0;
  do {
    status = next(pid, PTRACE_SYSEMU_SINGLESTEP);
    steps++;
  } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  CHECK(steps > 2);
  answer(pid, at_call(pid, status, SYS_getuid), 5);
  printf("emulated, after %s steps\n", steps > 2 ? "some" : "no");
  status = next(pid, PTRACE_CONT);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  return guest_ok();
}
