// A 64-bit tracer of a task that executes 32-bit code: it finds the sets of registers laid out as for 32-bit programs,
// their descriptors of thread-local storage, and a call's error as such.
#include "../guest.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { NARROW_CS = 0x23, NARROW_CLOSE = 6, NARROW_REGS = 68, NARROW_FPREGS = 108, DESCRIPTORS = 48, ORIG_EAX = 11 };
static const long narrow_tls = 0x200;

static void tracee(void) {
  // close(-1), and exit(5).
  static const unsigned char code[] = {0xb8, 6, 0, 0, 0, 0xbb, 0xff, 0xff, 0xff, 0xff, 0xcd, 0x80,
                                       0xb8, 1, 0, 0, 0, 0xbb, 5,    0,    0,    0,    0xcd, 0x80};
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  char *room = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  CHECK(room != MAP_FAILED);
  memcpy(room, code, sizeof code);
  raise(SIGSTOP);
  __asm__ volatile("movq %0, %%rsp\n\tpushq %1\n\tpushq %2\n\tlretq"
                   :
                   : "r"(room + 2 * PAGE - 64), "i"(NARROW_CS), "r"(room)
                   : "memory");
}

static struct user_regs_struct next(pid_t pid) {
  int status;
  struct user_regs_struct regs;
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  return regs;
}

static size_t set_of(pid_t pid, long set, void *to) {
  struct iovec iov = {to, PAGE};
  CHECK(ptrace(PTRACE_GETREGSET, pid, set, &iov) == 0);
  return iov.iov_len;
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) tracee();
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  static unsigned words[PAGE / 4];
  CHECK(set_of(pid, NT_PRSTATUS, words) == sizeof(struct user_regs_struct));
  struct user_regs_struct regs = next(pid);
  CHECK(regs.cs == NARROW_CS && regs.orig_rax == NARROW_CLOSE && (int)regs.rbx == -1);
  CHECK(set_of(pid, NT_PRSTATUS, words) == NARROW_REGS);
  CHECK(words[0] == (unsigned)regs.rbx && words[ORIG_EAX] == NARROW_CLOSE && words[ORIG_EAX + 1] == (unsigned)regs.rip);
  CHECK(set_of(pid, NT_PRFPREG, words) == NARROW_FPREGS && (words[0] & 0xffff) == 0x37f);
  CHECK(set_of(pid, narrow_tls, words) == DESCRIPTORS && words[0] == 12);
  struct __ptrace_syscall_info info;
  CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0 && info.arch == 0x40000003);
  regs = next(pid);
  CHECK(regs.orig_rax == NARROW_CLOSE && (long)regs.rax == -EBADF);
  CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0);
  CHECK(info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.is_error && info.exit.rval == -EBADF);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 5);
  return guest_ok();
}
