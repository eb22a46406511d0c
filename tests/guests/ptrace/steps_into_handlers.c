// A tracer gives its child a signal with a step: the step ends in front of the first instruction of the handler, of
// which nothing is executed yet. So it is with a signal that was sent, with a fault, and where calls are emulated.
#include "stepping.h"
#include <stddef.h>

enum { CODE_OF_STOP = SIGTRAP, CODE_OF_STEP = 2 };

static long good = 77;
static volatile int handled;

__attribute__((noinline)) static long read_from(volatile long *from) {
  long value;
  __asm__ volatile("mov (%%rdi), %0" : "=r"(value) : "D"(from) : "memory");
  return value;
}

static void on_sent(int sig) { handled += sig; }

static void on_fault(int sig, siginfo_t *info, void *context) {
  greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
  CHECK(sig == SIGSEGV && info->si_addr == (void *)16 && regs[REG_RDI] == 16);
  regs[REG_RDI] = (greg_t)&good;
  handled++;
}

static int tracee(void) {
  on_signal(SIGUSR1, on_sent, 0);
  on_siginfo(SIGSEGV, on_fault, 0);
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  for (int i = 0; i < 3; i++) raise(SIGUSR1);
  CHECK(handled == 3 * SIGUSR1);
  CHECK(read_from((volatile long *)16) == 77);
  CHECK(handled == 3 * SIGUSR1 + 1);
  _exit(5);
}

static int code_of(pid_t pid) {
  siginfo_t info;
  CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_signo == SIGTRAP);
  return info.si_code;
}

// The child is at a stop for this signal.
static void step_into(pid_t pid, int how, int sig, unsigned long handler) {
  CHECK(ptrace(how, pid, 0, sig) == 0);
  CHECK(wait_stop(pid) == SIGTRAP);
  struct user_regs_struct regs = regs_of(pid);
  CHECK(regs.rip == handler && (int)regs.rdi == sig && code_of(pid) == CODE_OF_STOP);
  CHECK(step(pid) == SIGTRAP);
  unsigned long next = regs_of(pid).rip;
  CHECK(next > handler && next < handler + 16 && code_of(pid) == CODE_OF_STEP);
  printf("%d: then %lu bytes on\n", sig, next - handler);
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  CHECK(wait_stop(pid) == SIGUSR1);
  step_into(pid, PTRACE_SINGLESTEP, SIGUSR1, (unsigned long)on_sent);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0 && wait_stop(pid) == SIGUSR1);
  step_into(pid, PTRACE_SYSEMU_SINGLESTEP, SIGUSR1, (unsigned long)on_sent);
  // Without a step, nothing stops it there.
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0 && wait_stop(pid) == SIGUSR1);
  CHECK(ptrace(PTRACE_CONT, pid, 0, SIGUSR1) == 0 && wait_stop(pid) == SIGSEGV);
  step_into(pid, PTRACE_SINGLESTEP, SIGSEGV, (unsigned long)on_fault);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 5);
  return guest_ok();
}
