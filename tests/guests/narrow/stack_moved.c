// cflags: -m32
// needs: /usr/lib32/crt1.o
// A tracer moves the stack pointer of a 32-bit program in front of each of its calls, and back behind it, as proot does
// to put names there. It hears once of a call's entry, and once of its exit, also of the first one.
#include "../guest.h"
#include <sys/ptrace.h>
#include <sys/user.h>

enum { RSEQ = 386, MOVED = 256 };

static void tracee(char *program) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  CHECK(syscall(SYS_kill, getpid(), SIGSTOP) == 0);
  execl("/proc/self/exe", program, "x", NULL);
  _exit(1);
}

// Its next stop for a call; none: it has ended.
static bool next(pid_t pid, struct user_regs_struct *regs) {
  int status;
  do {
    CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0 && waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status)) {
      CHECK(WEXITSTATUS(status) == 5);
      return false;
    }
    CHECK(WIFSTOPPED(status));
  } while (status >> 8 != (SIGTRAP | 0x80));
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, regs) == 0);
  return true;
}

int main(int argc, char **argv) {
  if (argc > 1) _exit(5);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) tracee(argv[0]);
  int status, calls = 0;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) == 0);
  struct user_regs_struct entry, moved, end;
  while (next(pid, &entry)) {
    CHECK(entry.eax == -ENOSYS);
    calls++;
    moved = entry;
    bool is_moved = entry.orig_eax != SYS_execve && entry.orig_eax != SYS_exit_group;
    if (is_moved) moved.esp -= MOVED;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &moved) == 0);
    if (!next(pid, &end)) break;
    bool may_be_missing = entry.orig_eax == RSEQ || entry.orig_eax == SYS_set_robust_list;
    if (end.eax == -ENOSYS && !may_be_missing) fprintf(stderr, "call %ld: no exit\n", entry.orig_eax);
    CHECK(end.eax != -ENOSYS || may_be_missing);
    if (!is_moved) continue;
    CHECK(end.orig_eax == entry.orig_eax && end.esp == moved.esp);
    end.esp = entry.esp;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &end) == 0);
  }
  printf("%d calls\n", calls);
  return guest_ok();
}
