// At the entry of a system call: what the tracer puts into rax is nothing that the call sees, and a negative number is shown with its
// sign, as it was given, whether the call is made or emulated.
#include "../guest.h"
#include <sys/ptrace.h>
#include <sys/user.h>

static long made(long number) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
  return result;
}

static struct user_regs_struct next(pid_t pid, int request, bool is_call) {
  int status;
  struct user_regs_struct regs;
  CHECK(ptrace(request, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, __WALL) == pid);
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == (is_call ? (SIGTRAP | 0x80) : SIGSTOP));
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  return regs;
}

static pid_t traced(long number, long result) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    kill(getpid(), SIGSTOP);
    long found = made(number);
    _exit(found == result || (result > 0 && found == getppid()) ? 7 : 8);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  return pid;
}

static void ends(pid_t pid) {
  int status;
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

// The exit of the kill that has stopped it comes first.
static struct user_regs_struct at_entry(pid_t pid, int request, long number) {
  for (int calls = 0; calls < 20; calls++) {
    struct user_regs_struct regs = next(pid, request, true);
    if ((long)regs.orig_rax == number && (long)regs.rax == -ENOSYS) return regs;
  }
  CHECK(!"the call");
  abort();
}

int main(void) {
  pid_t pid = traced(SYS_getppid, 1);
  struct user_regs_struct regs = at_entry(pid, PTRACE_SYSCALL, SYS_getppid);
  regs.rax = 39;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  regs = next(pid, PTRACE_SYSCALL, true);
  CHECK((long)regs.orig_rax == SYS_getppid && (long)regs.rax == getpid());
  ends(pid);

  pid = traced(-38, -ENOSYS);
  at_entry(pid, PTRACE_SYSCALL, -38);
  regs = next(pid, PTRACE_SYSCALL, true);
  CHECK((long)regs.orig_rax == -38 && (long)regs.rax == -ENOSYS);
  ends(pid);

  pid = traced(-38, 4711);
  regs = at_entry(pid, PTRACE_SYSEMU, -38);
  regs.rax = 4711;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  ends(pid);
  return guest_ok();
}
