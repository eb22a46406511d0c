// cflags: -m32
// needs: /usr/lib32/crt1.o
// The seccomp filters of a 32-bit program are asked about its own calls, whether bis makes them as they are or others in
// their place: one fails, one raises SIGSYS, one ends the process, and about three a tracer is asked, once each.
#include "../seccomp/filter.h"
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { FAILS = SYS_getitimer, RAISES = SYS_sched_get_priority_max, ENDS = SYS_getpriority };

static void install_filter(bool by_prctl) {
  struct sock_filter code[] = {
      LOAD(arch),
      IS(AUDIT_ARCH_I386, 1, 0),
      ANSWER(SECCOMP_RET_KILL_PROCESS),
      LOAD(nr),
      IS(FAILS, 0, 1),
      ANSWER(SECCOMP_RET_ERRNO | ENOLINK),
      IS(RAISES, 0, 1),
      ANSWER(SECCOMP_RET_TRAP | 5),
      IS(ENDS, 0, 1),
      ANSWER(SECCOMP_RET_KILL_PROCESS),
      IS(SYS_write, 0, 1),
      ANSWER(SECCOMP_RET_TRACE | 6),
      IS(SYS_getppid, 0, 1),
      ANSWER(SECCOMP_RET_TRACE | 7),
      IS(SYS_poll, 0, 1),
      ANSWER(SECCOMP_RET_TRACE | 8),
      ANSWER(SECCOMP_RET_ALLOW),
  };
  give_up_privileges();
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  CHECK((by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) : INSTALL(code, 0)) == 0);
  CHECK(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER && status_of("Seccomp:") == 2);
}

static volatile int raised;

static void on_sys(int sig, siginfo_t *info, void *context) {
  greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
  CHECK(sig == SIGSYS && info->si_code == 1 && info->si_errno == 5);
  CHECK(info->si_syscall == RAISES && info->si_arch == AUDIT_ARCH_I386);
  CHECK(info->si_call_addr == (void *)regs[REG_EIP]);
  regs[REG_EAX] = 321;
  raised++;
}

static void judged(void) {
  install_filter(true);
  on_siginfo(SIGSYS, on_sys, 0);
  struct itimerval timer;
  CHECK_ERRNO(syscall(FAILS, ITIMER_REAL, &timer), ENOLINK);
  CHECK(syscall(RAISES, SCHED_FIFO) == 321 && raised == 1);
  // Nobody is asked.
  CHECK_ERRNO(syscall(SYS_getppid), ENOSYS);
  CHECK_ERRNO(syscall(SYS_write, 1, "lost\n", 5), ENOSYS);
  syscall(ENDS, PRIO_PROCESS, 0);
  _exit(1);
}

static void strict(bool ends) {
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  CHECK(write(1, "strict\n", 7) == 7);
  syscall(ends ? SYS_exit : SYS_getppid, 6);
}

static int gate[2];

static void *idle(void *arg) {
  CHECK(read(gate[0], &(char){0}, 1) == 1);
  return arg;
}

static void traced(void) {
  int ends[2];
  CHECK(pipe(ends) == 0 && pipe(gate) == 0);
  // With company, a call that may wait has memory of bis's, which is mapped when the first comes.
  pthread_t thread = start_thread(idle, NULL);
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  install_filter(false);
  raise(SIGSTOP);
  for (int i = 0; i < 3; i++) {
    CHECK(syscall(SYS_write, ends[1], "ab", 2) == 1);
    CHECK(syscall(SYS_getppid) == 4711);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    CHECK(syscall(SYS_poll, &end, 1, -1) == 1);
  }
  CHECK(writev(gate[1], &(struct iovec){"x", 1}, 1) == 1 && pthread_join(thread, NULL) == 0);
  char got[4] = "";
  CHECK(read(ends[0], got, sizeof got) == 3 && memcmp(got, "bbb", 3) == 0);
  _exit(4);
}

static int next(pid_t pid, int how) {
  int status;
  CHECK(ptrace(how, pid, 0, 0) == 0 && waitpid(pid, &status, 0) == pid);
  return status;
}

static struct user_regs_struct asked(pid_t pid, int status, int nr, unsigned long data) {
  if (status >> 8 != (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) fprintf(stderr, "call %d: status %#x\n", nr, status);
  CHECK(WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8));
  unsigned long message;
  CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0 && message == data);
  struct user_regs_struct regs;
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  CHECK(regs.orig_eax == nr && regs.eax == -ENOSYS);
  return regs;
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) judged();
  check_killed(pid, SIGSYS);

  for (int ends = 0; ends < 2; ends++) {
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) strict(ends);
    ends ? check_exited(pid, 6) : check_killed(pid, SIGKILL);
  }

  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) traced();
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD) == 0);
  for (int i = 0; i < 3; i++) {
    // One byte of another place is written.
    struct user_regs_struct regs = asked(pid, next(pid, PTRACE_CONT), SYS_write, 6);
    CHECK(regs.edx == 2);
    long word = ptrace(PTRACE_PEEKDATA, pid, regs.ecx, 0);
    CHECK((word & 0xffffff) == ('a' | 'b' << 8));
    regs.ecx++;
    regs.edx = 1;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    // A call that is not made, with a result.
    regs = asked(pid, next(pid, PTRACE_CONT), SYS_getppid, 7);
    regs.orig_eax = -1;
    regs.eax = 4711;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    // The end of that, and one that is told of before it is asked about, and behind it.
    CHECK(next(pid, PTRACE_SYSCALL) >> 8 == (SIGTRAP | 0x80));
    CHECK(next(pid, PTRACE_SYSCALL) >> 8 == (SIGTRAP | 0x80));
    asked(pid, next(pid, PTRACE_SYSCALL), SYS_poll, 8);
    CHECK(next(pid, PTRACE_SYSCALL) >> 8 == (SIGTRAP | 0x80));
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.eax == 1);
  }
  CHECK(WIFEXITED(status = next(pid, PTRACE_CONT)) && WEXITSTATUS(status) == 4);
  return guest_ok();
}
