// What the recorded traces beside it are of: small, without a libc, so that each trace has all it needs in a few kilobytes.
// With -DBLOCKS and a file as standard input, it reads that several times: a trace of format 6. With -DMEMORY, it changes its
// address space again and again, which hooks do. With -DTEXTS, it executes itself several times, and its calls lie on many
// pages: a trace of format 7, in which patched text is mapped. With -DINT80, it makes a call of the 32-bit table, which failed
// without an event up to format 7.
// build: gcc -O1 -g -static -nostdlib -fno-stack-protector -fno-asynchronous-unwind-tables -o program program.c
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <sys/syscall.h>

#define SA_RESTORER 0x04000000

static long call(long nr, long a, long b, long c, long d, long e, long f) {
  register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
}

static void say(const char *what, unsigned long number) {
  char line[80];
  int len = 0;
  while (*what) line[len++] = *what++;
  for (int shift = 60; shift >= 0; shift -= 4) line[len++] = "0123456789abcdef"[number >> shift & 15];
  line[len++] = '\n';
  call(SYS_write, 1, (long)line, len, 0, 0, 0);
}

static volatile int handled, done;
static long counter;
static char stack[16384] __attribute__((aligned(16)));

static void handler(int signal) { handled = signal; }

asm(".globl restorer\nrestorer: mov $15, %eax\nsyscall\n");
extern void restorer(void);

// A thread of its own: the child begins with its function on the new stack.
asm(".globl begin_thread\n"
    "begin_thread: mov $56, %eax\n"
    "xor %edx, %edx\nxor %r10d, %r10d\nxor %r8d, %r8d\n"
    "syscall\n"
    "test %eax, %eax\njnz 1f\n"
    "pop %rax\ncall *%rax\n"
    "1: ret\n");
extern long begin_thread(unsigned long flags, void *stack);

static void thread(void) {
  for (int i = 0; i < 1000; i++) __atomic_add_fetch(&counter, i, __ATOMIC_SEQ_CST);
  done = 1;
  call(SYS_futex, (long)&done, FUTEX_WAKE, 1, 0, 0, 0);
  call(SYS_exit, 0, 0, 0, 0, 0, 0);
}

#ifdef TEXTS
// Forty places that make calls, on ten pages.
asm(".globl places\n.balign 4096\nplaces:\n"
    ".rept 40\nmov $39, %eax\nsyscall\nadd %rax, %rdi\n.balign 1024, 0x90\n.endr\n"
    "mov %rdi, %rax\nret\n.balign 4096\n");
extern long places(long sum);

static void texts(const long *start) {
  static const char *const again[] = {"program", "again", 0};
  long pid = call(SYS_getpid, 0, 0, 0, 0, 0, 0), sum = places(0);
  if (start[0] > 1) {
    say("the same process ", sum == 40 * pid);
    call(SYS_exit_group, 5, 0, 0, 0, 0, 0);
  }
  for (int i = 0; i < 4; i++) {
    int status = 0;
    long child = call(SYS_fork, 0, 0, 0, 0, 0, 0);
    if (!child) call(SYS_execve, (long)"/proc/self/exe", (long)again, 0, 0, 0, 0);
    call(SYS_wait4, child, (long)&status, 0, 0, 0, 0);
    say("again ", status);
  }
}
#endif

__attribute__((used, force_align_arg_pointer)) static void program(const long *start) {
  (void)start;
#ifdef TEXTS
  texts(start);
#endif
  unsigned long random[2] = {0, 0}, digest = 0;
  call(SYS_getrandom, (long)random, sizeof random, 0, 0, 0, 0);
  say("random ", random[0] ^ random[1]);
  say("time stamp ", __builtin_ia32_rdtsc());

#ifdef INT80
  long narrow;
  asm volatile("int $0x80" : "=a"(narrow) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
  say("getpid of the 32-bit table ", narrow);
#endif

#ifdef BLOCKS
  static unsigned long block[512];
  unsigned long sum = 0;
  for (int round = 0; round < 8; round++) {
    call(SYS_pread64, 0, (long)block, sizeof block, 0, 0, 0);
    for (int i = 0; i < 512; i++) sum = sum * 31 + block[i];
  }
  say("read ", sum);
#endif

#ifdef MEMORY
  unsigned long found = 0, heap = call(SYS_brk, 0, 0, 0, 0, 0, 0);
  for (unsigned long round = 0; round < 8; round++) {
    unsigned long *some = (void *)call(SYS_mmap, 0, 1 << 14, 3, 0x22, -1, 0);
    for (int i = 0; i < 4; i++) some[i * 512] = random[0] + round;
    call(SYS_madvise, (long)some, 1 << 12, MADV_DONTNEED, 0, 0, 0);
    call(SYS_mprotect, (long)some, 1 << 13, PROT_READ, 0, 0, 0);
    for (int i = 0; i < 4; i++) found = found * 31 + some[i * 512];
    call(SYS_munmap, (long)some + (1 << 13), 1 << 13, 0, 0, 0, 0);
    call(SYS_brk, heap + (round + 1 << 13), 0, 0, 0, 0, 0);
    ((volatile unsigned long *)heap)[round << 10] = found;
  }
  for (int round = 0; round < 8; round++) found = found * 31 + ((volatile unsigned long *)heap)[round << 10];
  say("found ", found);
#endif

  unsigned long *pages = (void *)call(SYS_mmap, 0, 1 << 16, 3, 0x22, -1, 0);
  for (unsigned long i = 0; i < (1 << 13); i++) pages[i] = random[i & 1] * i;
  for (unsigned long i = 0; i < (1 << 13); i++) digest = (digest << 1 | digest >> 63) ^ pages[i];
  call(SYS_munmap, (long)pages, 1 << 16, 0, 0, 0, 0);
  say("digest ", digest);

  struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {
      handler, SA_RESTORER, restorer, 0};
  call(SYS_rt_sigaction, 10, (long)&action, 0, 8, 0, 0);
  call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0, 0, 0), 10, 0, 0, 0, 0);
  say("signal ", handled);

  void **top = (void **)(stack + sizeof stack);
  *--top = 0;
  *--top = thread;
  begin_thread(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, top);
  for (int i = 0; i < 1000; i++) __atomic_add_fetch(&counter, i, __ATOMIC_SEQ_CST);
  while (!done) call(SYS_futex, (long)&done, FUTEX_WAIT, 0, 0, 0, 0);
  say("counter ", counter);

  long child = call(SYS_fork, 0, 0, 0, 0, 0, 0);
  if (!child) {
    say("child ", random[0] % 10);
    call(SYS_exit_group, 3, 0, 0, 0, 0, 0);
  }
  int status = 0;
  call(SYS_wait4, child, (long)&status, 0, 0, 0, 0);
  say("status ", status);
  call(SYS_exit_group, 7, 0, 0, 0, 0, 0);
}

asm(".globl _start\n_start: mov %rsp, %rdi\ncall program\n");
