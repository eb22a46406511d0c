// A tracer asks for the bases of its child's segments, and sets them (PTRACE_ARCH_PRCTL, by which gdbserver finds a
// thread's memory): they are what the child has by arch_prctl, and what PTRACE_GETREGS says.
#include "../guest.h"
#include <asm/prctl.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

static unsigned long own(int which) {
  unsigned long base = 1;
  CHECK(syscall(SYS_arch_prctl, which, &base) == 0);
  return base;
}

static long ask(pid_t pid, int which, void *at) { return ptrace(PTRACE_ARCH_PRCTL, pid, at, which); }

int main(void) {
  unsigned long *seen = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(seen != MAP_FAILED);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, 0x123000) == 0);
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    seen[0] = own(ARCH_GET_GS);
    seen[1] = own(ARCH_GET_FS);
    raise(SIGSTOP);
    _exit(3);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
  // The child is a copy of this process, of which nothing but the base of GS has changed.
  unsigned long fs = 1, gs = 1;
  struct user_regs_struct regs;
  CHECK(ask(pid, ARCH_GET_FS, &fs) == 0 && fs == own(ARCH_GET_FS));
  CHECK(ask(pid, ARCH_GET_GS, &gs) == 0 && gs == 0x123000);
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.fs_base == fs && regs.gs_base == gs);
  CHECK(ask(pid, ARCH_SET_GS, (void *)0x456000) == 0);
  CHECK(ask(pid, ARCH_GET_GS, &gs) == 0 && gs == 0x456000);
  CHECK(ask(pid, ARCH_SET_FS, (void *)fs) == 0);
  CHECK(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, gs_base), 0) == 0x456000);

  CHECK_ERRNO(ask(pid, ARCH_SET_GS, (void *)(1UL << 63)), EPERM);
  CHECK_ERRNO(ask(pid, ARCH_GET_FS, (void *)8), EFAULT);
  CHECK_ERRNO(ask(pid, 0, &gs), EINVAL);
  CHECK(ask(pid, ARCH_GET_GS, &gs) == 0 && gs == 0x456000);

  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
  CHECK(ptrace(PTRACE_PEEKDATA, pid, seen, 0) == 0x456000);
  CHECK((unsigned long)ptrace(PTRACE_PEEKDATA, pid, seen + 1, 0) == fs);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  return guest_ok();
}
