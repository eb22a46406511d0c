// A filter wants the tracer to be asked (SECCOMP_RET_TRACE): it is told the filter's number, lets a call be made, changes
// it, or keeps it from being made; without such a tracer the call fails with ENOSYS.
#include "../guest.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define TRACE(nr, data)                                    \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1),         \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | (data))

static void install(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      TRACE(SYS_getppid, 7),
      TRACE(SYS_getuid, 8),
      TRACE(SYS_getgid, 9),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int child(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  install();
  // Its tracer has not asked for it yet.
  CHECK_ERRNO(syscall(SYS_getppid), ENOSYS);
  raise(SIGSTOP);
  for (int i = 0; i < 2; i++) {
    CHECK(syscall(SYS_getppid) > 0);
    CHECK(syscall(SYS_getuid) == 1234);
    CHECK(syscall(SYS_getgid) == getpid());
  }
  _exit(3);
}

static int next(pid_t pid, int how) {
  int status;
  CHECK(ptrace(how, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, 0) == pid);
  return status;
}

static struct user_regs_struct asked(pid_t pid, int status, long nr, unsigned long data) {
  CHECK(WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8));
  unsigned long message;
  CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0 && message == data);
  struct user_regs_struct regs;
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  CHECK((long)regs.orig_rax == nr && (long)regs.rax == -ENOSYS);
  struct __ptrace_syscall_info info;
  long len = ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info);
  CHECK(len >= (long)offsetof(struct __ptrace_syscall_info, seccomp.ret_data) + 4);
  CHECK(info.op == PTRACE_SYSCALL_INFO_SECCOMP && (long)info.seccomp.nr == nr && info.seccomp.ret_data == data);
  return regs;
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return child();
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP) == 0);
  struct user_regs_struct regs;
  // Only the filter's calls, then all of them: first the entry, then the filter's question, then the exit.
  asked(pid, next(pid, PTRACE_CONT), SYS_getppid, 7);
  regs = asked(pid, next(pid, PTRACE_CONT), SYS_getuid, 8);
  regs.orig_rax = -1;
  regs.rax = 1234;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  asked(pid, next(pid, PTRACE_CONT), SYS_getgid, 9);
  CHECK(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), SYS_getpid) == 0);
  do status = next(pid, PTRACE_SYSCALL);
  while (ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.orig_rax != SYS_getppid);
  CHECK(WSTOPSIG(status) == (SIGTRAP | 0x80) && (long)regs.rax == -ENOSYS);
  asked(pid, next(pid, PTRACE_SYSCALL), SYS_getppid, 7);
  status = next(pid, PTRACE_SYSCALL);
  CHECK(WSTOPSIG(status) == (SIGTRAP | 0x80) && ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  CHECK((pid_t)regs.rax == getpid() && regs.orig_rax == SYS_getppid);
  regs = asked(pid, next(pid, PTRACE_CONT), SYS_getuid, 8);
  regs.orig_rax = -1;
  regs.rax = 1234;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  asked(pid, next(pid, PTRACE_CONT), SYS_getgid, 9);
  CHECK(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), SYS_getpid) == 0);
  status = next(pid, PTRACE_CONT);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  return guest_ok();
}
