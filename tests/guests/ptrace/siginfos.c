// What a tracer is told of a stop by PTRACE_GETSIGINFO: who has stopped, at events and calls; where, at steps; and what it
// has put there itself. The tracee has stopped already when it is attached to, which its tracer hears at once.
#include "../guest.h"
#include <sys/ptrace.h>
#include <sys/user.h>

static int wait_status(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, __WALL) == pid);
  return status;
}

static siginfo_t info_of(pid_t pid) {
  siginfo_t info;
  memset(&info, 0xff, sizeof info);
  CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
  return info;
}

static void check_told_by(pid_t pid, int signal, int code) {
  siginfo_t info = info_of(pid);
  if (info.si_signo != signal || info.si_code != code || info.si_pid != pid || info.si_uid != getuid())
    printf("signal %d, code %#x, of %d (%d), user %u\n", info.si_signo, (unsigned)info.si_code, info.si_pid, pid, info.si_uid);
  CHECK(info.si_signo == signal && info.si_code == code && info.si_errno == 0);
  CHECK(info.si_pid == pid && info.si_uid == getuid());
  for (const char *at = (char *)&info.si_uid + 4; at < (char *)(&info + 1); at++) CHECK(*at == 0);
}

static int tracee(void) {
  raise(SIGSTOP);
  getppid();
  pid_t pid = fork();
  if (pid == 0) _exit(11);
  CHECK(waitpid(pid, NULL, 0) == pid);
  raise(SIGTSTP);
  for (volatile int i = 0; i < 100; i++) {
  }
  return 7;
}

static void step_along(pid_t pid) {
  for (int i = 0; i < 30; i++) {
    CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
    CHECK(wait_status(pid) == (SIGTRAP << 8 | 0x7f));
    siginfo_t info = info_of(pid);
    struct user_regs_struct regs;
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    CHECK(info.si_signo == SIGTRAP && info.si_code == TRAP_TRACE && info.si_addr == (void *)regs.rip);
  }
}

static void attach(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    raise(SIGTSTP);
    _exit(5);
  }
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT) == 0);
  CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0);
  CHECK(wait_status(pid) == (SIGTSTP << 8 | 0x7f));
  CHECK_ERRNO(ptrace(PTRACE_GETSIGINFO, pid, 0, &info), EINVAL);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(wait_status(pid) == (SIGSTOP << 8 | 0x7f));
  info = info_of(pid);
  CHECK(info.si_code == SI_KERNEL && info.si_pid == 0 && info.si_uid == 0);
  CHECK(kill(pid, SIGCONT) == 0);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(wait_status(pid) == (SIGCONT << 8 | 0x7f));
  CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  check_exited(pid, 5);
}

int main(void) {
  attach();
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) _exit(tracee());
  siginfo_t stopped;
  CHECK(waitid(P_PID, (id_t)pid, &stopped, WSTOPPED | WNOWAIT) == 0);
  long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK;
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, options) == 0 && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
  int calls = 0, events = 0, groups = 0, status;
  for (status = wait_status(pid); WIFSTOPPED(status); status = wait_status(pid)) {
    int event = status >> 16, signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
      check_told_by(pid, signal, PTRACE_EVENT_STOP << 8 | signal);
      if (signal == SIGTSTP) groups++;
      CHECK(kill(pid, SIGCONT) == 0);
    } else if (event != 0) {
      check_told_by(pid, SIGTRAP, event << 8 | SIGTRAP);
      if (event == PTRACE_EVENT_FORK) {
        events++;
        unsigned long child;
        CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &child) == 0);
        CHECK(wait_status((pid_t)child) == (PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f));
        check_told_by((pid_t)child, SIGTRAP, PTRACE_EVENT_STOP << 8 | SIGTRAP);
        CHECK(ptrace(PTRACE_DETACH, (pid_t)child, 0, 0) == 0);
      }
    } else if (signal == (SIGTRAP | 0x80)) {
      check_told_by(pid, SIGTRAP, SIGTRAP | 0x80);
      calls++;
      siginfo_t own = info_of(pid);
      own.si_pid = 4711;
      CHECK(ptrace(PTRACE_SETSIGINFO, pid, 0, &own) == 0 && info_of(pid).si_pid == 4711);
    } else if (signal == SIGCONT) {
      siginfo_t info = info_of(pid);
      CHECK(info.si_code == SI_USER && info.si_pid == getpid() && info.si_uid == getuid());
    } else if (signal == SIGTSTP) {
      siginfo_t info = info_of(pid);
      CHECK(info.si_code == SI_TKILL && info.si_pid == pid);
      CHECK(ptrace(PTRACE_SYSCALL, pid, 0, SIGTSTP) == 0);
      continue;
    }
    if (groups == 1 && signal == SIGCONT) {
      step_along(pid);
      groups++;
    }
    CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  printf("%d events, %d groups\n", events, groups);
  CHECK(calls > 8 && events == 1 && groups == 2);
  return guest_ok();
}
