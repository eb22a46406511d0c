// A tracer steps its child over instructions that ask the processor for a number: each is one step.
// hooked: nothing makes these instructions fault, so only text that is patched is recorded
#include "../time/chance.h"
#include "stepping.h"

// Each instruction's address goes to a table, of which the linker says where it begins and ends.
#define I(insn) "9: " insn "\n .pushsection in_numbers, \"aw\"\n .quad 9b\n .popsection\n"

extern const unsigned long __start_in_numbers[], __stop_in_numbers[];
__attribute__((noinline)) static unsigned long numbers(void) {
  unsigned long number;
  __asm__ volatile(I("nop") I("rdrand %%rax") I("mov %%rax, %0") I("rdrand %%r11d")
                   I("xor %%r11, %0") I("nop")
                   : "=&r"(number)
                   :
                   : "rax", "r11", "cc");
  return number;
}

static void try_numbers(void) { rdrand64(); }

enum { TIMES = 4 };

static unsigned long flags(void) {
  unsigned long flags;
  __asm__ volatile("pushfq; popq %0" : "=r"(flags));
  return flags;
}

static int tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  for (int i = 0; i < TIMES; i++) {
    __asm__ volatile("int3");
    unsigned long number = numbers();
    __asm__ volatile("int3");
    printf("%lx\n", number);
    CHECK(!(flags() & 0x100));
  }
  _exit(5);
}

static void steps(pid_t pid, const unsigned long *from, const unsigned long *end) {
  go_to_trap(pid);
  while (regs_of(pid).rip != *from) CHECK(step(pid) == SIGTRAP);
  step_along(pid, from, end);
  go_to_trap(pid);
}

int main(void) {
  if (!works(try_numbers)) return guest_ok();
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  CHECK(wait_stop(pid) == SIGSTOP);
  for (int i = 0; i < TIMES; i++) {
    steps(pid, __start_in_numbers, __stop_in_numbers);
    printf("%d: in steps\n", i);
  }
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 5);
  return guest_ok();
}
