// A tracer steps its child over system calls and over instructions that ask the machine for something: each
// is one step, to behind itself, and nothing of whoever makes them is seen.
// cflags: -Wl,-z,now
#include "stepping.h"

// Each instruction's address goes to a table, of which the linker says where it begins and ends.
#define I(insn) "9: " insn "\n .pushsection in_calls, \"aw\"\n .quad 9b\n .popsection\n"

extern const unsigned long __start_in_calls[], __stop_in_calls[];
long calls(long fd, const void *text, long len);
__asm__(".text\ncalls:\n push %rbx\n mov %rdi, %r8\n mov %rsi, %r9\n mov %rdx, %r10\n int3\n"         //
        I("nop") I("mov $39, %eax") I("syscall") I("mov %rax, %r12")                                    //
        I("mov $1, %eax") I("mov %r8, %rdi") I("mov %r9, %rsi") I("mov %r10, %rdx") I("syscall")        //
        I("mov %rax, %r13")                                                                             //
        I("rdtsc") I("shl $32, %rdx") I("or %rdx, %rax") I("mov %rax, %r14")                            //
        I("rdtsc") I("shl $32, %rdx") I("or %rdx, %rax") I("sub %r14, %rax")                            //
        I("xor %eax, %eax") I("xor %ecx, %ecx") I("cpuid") I("mov %ebx, %r15d")                         //
        I("mov $110, %eax") I("syscall") I("cmp %rax, %r12") I("nop")                                   //
        "int3\n mov %r13, %rax\n pop %rbx\n ret\n");

enum { TIMES = 4 };

__attribute__((noinline)) static long call(long text) {
  register long r12 __asm__("r12");
  long written;
  __asm__ volatile("call calls"
                   : "=a"(written), "=r"(r12), "+S"(text)
                   : "D"(1L), "d"(7L), "a"(0)
                   : "rcx", "r8", "r9", "r10", "r11", "r13", "r14", "r15", "memory", "cc");
  return written;
}

static unsigned long flags(void) {
  unsigned long flags;
  __asm__ volatile("pushfq; popq %0" : "=r"(flags));
  return flags;
}

static int tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  for (int i = 0; i < TIMES; i++) {
    CHECK(call((long)"called\n") == 7);
    CHECK(!(flags() & 0x100));
  }
  // What libc and the vdso make of it is stepped through, too.
  __asm__ volatile("int3");
  struct timespec now;
  char text[64];
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && time(NULL) > 0);
  CHECK(snprintf(text, sizeof text, "%d\n", getppid()) > 0);
  CHECK(write(1, text, strlen(text)) == (ssize_t)strlen(text));
  __asm__ volatile("int3");
  CHECK(!(flags() & 0x100));
  _exit(5);
}

static void steps(pid_t pid, const unsigned long *from, const unsigned long *end) {
  go_to_trap(pid);
  step_along(pid, from, end);
  go_to_trap(pid);
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  CHECK(wait_stop(pid) == SIGSTOP);
  for (int i = 0; i < TIMES; i++) {
    steps(pid, __start_in_calls, __stop_in_calls);
    CHECK(regs_of(pid).r12 == (unsigned long)pid);
    printf("%d: in steps\n", i);
  }
  go_to_trap(pid);
  // The final trap is told as a signal of the program's own.
  long made = 0;
  siginfo_t info;
  do {
    CHECK(step(pid) == SIGTRAP);
    CHECK(++made < 1000000);
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
    unsigned long rip = regs_of(pid).rip;
    CHECK(rip >> 28 != 7);
  } while (info.si_code == TRAP_TRACE || info.si_code == TRAP_BRKPT);
  printf("%ld steps more\n", made);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 5);
  return guest_ok();
}
