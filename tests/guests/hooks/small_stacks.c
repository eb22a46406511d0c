// Calls where there is hardly any stack, and below whose stack pointer something lies: the red zone of 128 bytes, which
// neither a call nor what makes it may touch.
#include "../guest.h"
#include <sys/time.h>

// Fills the red zone, makes the call, and gives the number of bytes of it that are not as they were.
long call_with_red_zone(long nr, long a, long b, long c);
__asm__(".text\n.globl call_with_red_zone\ncall_with_red_zone:\n"
        "  mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi; mov %rcx, %rdx\n"
        "  mov $-128, %r8\n"
        "1: movb %r8b, (%rsp,%r8); inc %r8; jnz 1b\n"
        "  mov $0x5a5a5a5a5a5a5a5a, %r9; mov %r9, %r8; mov %r9, %r10\n"
        "  syscall\n"
        "  cmp %r9, %r8; jne 4f; cmp %r9, %r10; jne 4f\n"
        "  mov $-128, %r8; xor %eax, %eax\n"
        "2: cmpb %r8b, (%rsp,%r8); je 3f; inc %eax\n"
        "3: inc %r8; jnz 2b\n"
        "  ret\n"
        "4: mov $1000, %eax; ret\n");

// The same with a stack pointer that points to nothing at all.
long call_without_stack(long nr, long a, long b, long c);
__asm__(".globl call_without_stack\ncall_without_stack:\n"
        "  mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi; mov %rcx, %rdx\n"
        "  mov %rsp, %r9; mov $8, %esp\n"
        "  syscall\n"
        "  mov %r9, %rsp\n"
        "  ret\n");

static int null, zero;

static void *calls(void *arg) {
  char small[64];
  for (int i = 0; i < (arg ? 200 : 10); i++) {
    CHECK(write(null, small, sizeof small) == sizeof small);
    CHECK(read(zero, small, sizeof small) == sizeof small && small[63] == 0);
    CHECK(getppid() > 0);
    struct timespec t;
    CHECK(clock_gettime(CLOCK_REALTIME, &t) == 0);
  }
  return arg;
}

static volatile int on_small;
static char *low, *high;
static void handler(int sig) {
  (void)sig;
  char here;
  CHECK(low <= &here && &here < high);
  calls(NULL);
  on_small++;
}

int main(void) {
  null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
  CHECK(null >= 0 && zero >= 0);
  static char buf[64] = "xyz";
  for (int i = 0; i < 300; i++) {
    CHECK(call_with_red_zone(SYS_getpid, 0, 0, 0) == 0);
    CHECK(call_with_red_zone(SYS_write, null, (long)buf, 64) == 0);
    CHECK(call_with_red_zone(SYS_read, zero, (long)buf, 64) == 0);
    CHECK(call_with_red_zone(SYS_clock_gettime, CLOCK_MONOTONIC, (long)buf, 0) == 0);
    CHECK(call_with_red_zone(SYS_read, -1, (long)buf, 64) == 0);
    CHECK(call_without_stack(SYS_getpid, 0, 0, 0) == getpid());
    CHECK(call_without_stack(SYS_read, zero, (long)buf, 64) == 64);
  }
  // The least that a thread may have.
  pthread_attr_t attr;
  pthread_t t[4];
  CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], &attr, calls, &null) == 0);
  for (int i = 0; i < 4; i++) join_thread(t[i]);
  // The least that a handler may have, above a page that is not there. It calls through the same instructions.
  size_t room = ((size_t)sysconf(_SC_MINSIGSTKSZ) + 2048 + PAGE - 1) / PAGE * PAGE;
  char *area = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED && mprotect(area, PAGE, PROT_NONE) == 0);
  low = area + PAGE, high = low + room;
  stack_t ss = {.ss_sp = low, .ss_size = room};
  CHECK(sigaltstack(&ss, NULL) == 0);
  on_signal(SIGALRM, handler, SA_ONSTACK);
  struct itimerval often = {.it_value.tv_usec = 3000, .it_interval.tv_usec = 3000};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  while (on_small < 5) calls(NULL);
  struct itimerval never = {0};
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  printf("%d %p\n", getpid(), (void *)area);
  return guest_ok();
}
