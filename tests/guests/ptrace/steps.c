// A tracer steps its child instruction by instruction, puts a breakpoint into its text, and mends what a fault
// has stopped it for.
#include "stepping.h"
#include <stddef.h>

static volatile int called;
__attribute__((noinline)) static int twice(int number) {
  called++;
  return 2 * number;
}

static long good = 77;
__attribute__((noinline)) static long read_from(volatile long *from) {
  long value;
  __asm__ volatile("mov (%%rdi), %0" : "=r"(value) : "D"(from) : "memory");
  return value;
}

static int tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  int sum = 0;
  for (int i = 0; i < 5; i++) sum += twice(i);
  CHECK(sum == 20 && called == 5);
  CHECK(read_from((volatile long *)16) == 77);
  raise(SIGUSR1);
  _exit(5);
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  CHECK(wait_stop(pid) == SIGSTOP);

  unsigned long at = (unsigned long)twice;
  long text = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
  for (int i = 0; i < 5; i++) {
    CHECK(ptrace(PTRACE_POKETEXT, pid, at, (text & ~0xffL) | 0xcc) == 0);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(wait_stop(pid) == SIGTRAP);
    struct user_regs_struct regs = regs_of(pid);
    CHECK(regs.rip == at + 1 && (int)regs.rdi == i);
    regs.rip = at;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    CHECK(ptrace(PTRACE_POKETEXT, pid, at, text) == 0);
    CHECK(step(pid) == SIGTRAP);
    siginfo_t info;
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_signo == SIGTRAP && info.si_code == 2);
    unsigned long next = regs_of(pid).rip;
    CHECK(next > at && next < at + 16);
    printf("call %d: %lu bytes on after a step\n", i, next - at);
  }
  // Every instruction up to the fault.
  CHECK(ptrace(PTRACE_POKETEXT, pid, (unsigned long)read_from, ptrace(PTRACE_PEEKTEXT, pid, read_from, 0)) == 0);
  int steps = 0, signal;
  while ((signal = step(pid)) == SIGTRAP) steps++;
  printf("%d steps\n", steps);
  CHECK(signal == SIGSEGV && steps > 3);
  siginfo_t info;
  CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_addr == (void *)16);
  CHECK(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rdi), &good) == 0);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  CHECK(wait_stop(pid) == SIGUSR1);
  CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  check_exited(pid, 5);
  return guest_ok();
}
