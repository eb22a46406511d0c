// Reads bytes and adds them up, without a C library: all of its instructions can be stepped in no time. On its way are
// instructions that are stepped with care: those that see or leave the flag of a step, repetitions, and traps that are
// blocked. (Of the byte that `load_here` loads, replay is told a lie: crates/bis/tests/steps.rs.)
static long call(long nr, long a, long b, long c, long d) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return result;
}

static unsigned load(const unsigned char *at) {
  unsigned byte;
  __asm__ volatile(".globl load_here\nload_here: movzbl (%1), %0" : "=r"(byte) : "r"(at) : "memory");
  return byte;
}

static unsigned char from[64], to[64];

__attribute__((used)) void run(void) {
  unsigned long mask = ~0UL, flags, sum = 0;
  long len = call(0, 0, (long)from, sizeof from, 0);  // read
  call(14, 0, (long)&mask, 0, 8);                     // rt_sigprocmask: SIGTRAP, too
  for (long at = 0; at < len; at++) sum += load(from + at);
  __asm__ volatile("pushfq; popq %0; pushq %0; popfq" : "=r"(flags) : : "cc", "memory");
  void *source = from, *target = to;
  unsigned long count = sizeof from;
  __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
  for (unsigned at = 0; at < sizeof to; at++) sum += to[at];
  call(39, 0, 0, 0, 0);  // getpid
  int is_stepped = flags >> 8 & 1;
  if (is_stepped) sum = 0;
  static char digits[] = "0000\n";
  for (int at = 3; at >= 0; at--, sum /= 10) digits[at] = (char)('0' + sum % 10);
  call(1, 1, (long)digits, 5, 0);  // write
  call(231, is_stepped, 0, 0, 0);  // exit_group
  __builtin_unreachable();
}

__asm__(".globl _start\n_start: andq $-16, %rsp\ncall run");
