// A 32-bit program, without a libc: a trace of format 8.
// build: gcc -m32 -O1 -g -static -nostdlib -fno-pie -no-pie -fno-stack-protector -fno-asynchronous-unwind-tables -o narrow narrow.c
#define THREAD 0x10f00  // CLONE_VM, _FS, _FILES, _SIGHAND, _THREAD
#define SETTLS 0x80000
#define SA_RESTORER 0x04000000

static long call(long nr, long a, long b, long c, long d, long e) {
  long result;
  asm volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory");
  return result;
}

static void say(const char *what, unsigned number) {
  char line[80];
  int len = 0;
  while (*what) line[len++] = *what++;
  for (int shift = 28; shift >= 0; shift -= 4) line[len++] = "0123456789abcdef"[number >> shift & 15];
  line[len++] = '\n';
  call(4, 1, (long)line, len, 0, 0);
}

static volatile int handled, done;
static int counter, storage[2] = {0x11, 0x22};
static char stack[16384] __attribute__((aligned(16)));
struct descriptor { unsigned entry, base, limit, flags; };

static void handler(int signal) { handled = signal; }

asm(".globl restorer\nrestorer: pop %eax\nmov $119, %eax\nint $0x80\n");
extern void restorer(void);

// A thread of its own, with a descriptor: the child begins with its function on the new stack.
asm(".globl begin_thread\n"
    "begin_thread: push %ebx\npush %esi\npush %edi\n"
    "mov $120, %eax\nmov 16(%esp), %ebx\nmov 20(%esp), %ecx\nmov 24(%esp), %esi\nxor %edx, %edx\nxor %edi, %edi\n"
    "int $0x80\n"
    "test %eax, %eax\njnz 1f\n"
    "pop %eax\ncall *%eax\n"
    "1: pop %edi\npop %esi\npop %ebx\nret\n");
extern long begin_thread(unsigned flags, void *stack, struct descriptor *tls);

static int own(void) {
  int value;
  asm volatile("mov %%gs:0, %0" : "=r"(value));
  return value;
}

static void thread(void) {
  for (int i = 0; i < 1000; i++) __atomic_add_fetch(&counter, i + own(), __ATOMIC_SEQ_CST);
  done = 1;
  call(240, (long)&done, 1, 1, 0, 0);
  call(1, 0, 0, 0, 0, 0);
}

__attribute__((used, force_align_arg_pointer)) static void program(void) {
  unsigned random[2] = {0, 0};
  call(355, (long)random, sizeof random, 0, 0, 0);
  say("random ", random[0] ^ random[1]);
  say("time stamp ", __builtin_ia32_rdtsc());
  struct descriptor mine = {-1u, (unsigned)&storage[0], 0xfffff, 0x51};
  say("descriptor ", call(243, (long)&mine, 0, 0, 0, 0));
  asm volatile("mov %0, %%gs" : : "r"(mine.entry * 8 + 3));
  say("own ", own());

  struct { void *handler; unsigned long flags; void *restorer; unsigned mask[2]; } action = {
      handler, SA_RESTORER, restorer, {0, 0}};
  call(174, 10, (long)&action, 0, 8, 0);
  call(37, call(20, 0, 0, 0, 0, 0), 10, 0, 0, 0);
  say("signal ", handled);

  void **top = (void **)(stack + sizeof stack);
  *--top = 0;
  *--top = thread;
  struct descriptor its = {mine.entry, (unsigned)&storage[1], 0xfffff, 0x51};
  begin_thread(THREAD | SETTLS, top, &its);
  for (int i = 0; i < 1000; i++) __atomic_add_fetch(&counter, i + own(), __ATOMIC_SEQ_CST);
  while (!done) call(240, (long)&done, 0, 0, 0, 0);
  say("counter ", counter);

  long child = call(2, 0, 0, 0, 0, 0);
  if (!child) {
    say("child ", own());
    call(252, 3, 0, 0, 0, 0);
  }
  int status = 0;
  call(7, child, (long)&status, 0, 0, 0);
  say("status ", status);
  call(252, 4, 0, 0, 0, 0);
}

asm(".globl _start\n_start: xor %ebp, %ebp\njmp program\n");
