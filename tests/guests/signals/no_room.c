// Signals whose frame has no room on the stack: the kernel raises SIGSEGV in their place, where the task is. A handler of that on
// another stack, none at all, and one that has no room either; after a call, in computation, and at a fault.
// cflags: -Wl,-z,now
#include "../guest.h"
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

// In the least, no processor's frame has room; in the most, any has.
#define LEAST 512
#define MOST (4 * PAGE)

static char *small, *alt;
static size_t room = LEAST;
static sigjmp_buf back;
static volatile int handled, saved;
static volatile uint64_t rounds;

static void handler(int sig) {
  (void)sig;
  handled++;
}

static void again(int sig) {
  handled++;
  raise(sig);
}

static void save(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  CHECK(info->si_code == SI_KERNEL && info->si_addr == NULL);
  saved++;
  siglongjmp(back, 1);
}

// Calls `f` with `room` bytes of stack below it, and a page that cannot be written below these.
static void in_little_room(void (*f)(void)) {
  char *top = small + PAGE + room;
  __asm__ volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %1, %%rsp\n\t"
      "call *%0\n\t"
      "movq %%rbx, %%rsp"
      :
      : "r"(f), "r"(top)
      : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void by_call(void) {
  // Not `raise`, which wants more room.
  syscall(SYS_kill, syscall(SYS_getpid), SIGUSR1);
}

static void by_computation(void) {
  for (;;) rounds++;
}

static void by_calls(void) {
  for (;;) {
    syscall(SYS_getppid);
    rounds++;
  }
}

static void by_fault(void) { *(volatile int *)16 = 1; }

// Down to the end of a stack that grows as it is used.
static int down(const char *from, int n) {
  volatile char frame[1000];
  frame[0] = (char)n;
  if ((size_t)(from - frame) > (1 << 20) - (1 << 16)) by_call();
  return n > 1 << 20 ? 0 : down(from, n + 1) + frame[0];
}

static void start_timer(void) {
  struct itimerval once = {.it_value.tv_usec = 20000};
  CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
}

static void on_alternate(int sig, void (*f)(int), int flags) {
  struct sigaction act = {.sa_handler = f, .sa_flags = SA_ONSTACK | flags};
  CHECK(sigaction(sig, &act, NULL) == 0);
}

// The child's end by `what`.
static int end_of(void (*what)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    what();
    _exit(1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  return WTERMSIG(status);
}

static void dies_after_a_call(void) {
  signal(SIGSEGV, SIG_DFL);
  in_little_room(by_call);
}

static void dies_while_it_is_ignored(void) {
  signal(SIGSEGV, SIG_IGN);
  in_little_room(by_call);
}

static void dies_while_it_is_blocked(void) {
  sigset_t segv;
  sigemptyset(&segv);
  sigaddset(&segv, SIGSEGV);
  CHECK(sigprocmask(SIG_BLOCK, &segv, NULL) == 0);
  in_little_room(by_call);
}

static void dies_at_a_fault(void) {
  on_signal(SIGSEGV, handler, 0);
  in_little_room(by_fault);
}

static void dies_in_computation(void) {
  signal(SIGSEGV, SIG_DFL);
  start_timer();
  in_little_room(by_computation);
}

static void dies_when_handlers_fill_the_other_stack(void) {
  on_alternate(SIGUSR1, again, SA_NODEFER);
  on_alternate(SIGSEGV, handler, 0);
  raise(SIGUSR1);
}

int main(void) {
  small = mmap(NULL, PAGE + MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mprotect(small, PAGE, PROT_NONE) == 0);
  alt = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = 1 << 16}, NULL) == 0);
  struct rlimit no_core = {0, 0};
  CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
  on_signal(SIGUSR1, handler, 0);
  on_signal(SIGALRM, handler, 0);

  on_siginfo(SIGSEGV, save, SA_ONSTACK);
  for (int i = 0; i < 3; i++)
    if (sigsetjmp(back, 1) == 0) in_little_room(by_call);
  for (int i = 0; i < 3; i++)
    if (sigsetjmp(back, 1) == 0) {
      start_timer();
      in_little_room(by_computation);
    }
  for (int i = 0; i < 3; i++)
    if (sigsetjmp(back, 1) == 0) {
      start_timer();
      in_little_room(by_calls);
    }
  CHECK(saved == 9 && handled == 0);

  CHECK(end_of(dies_after_a_call) == SIGSEGV);
  CHECK(end_of(dies_while_it_is_ignored) == SIGSEGV);
  CHECK(end_of(dies_while_it_is_blocked) == SIGSEGV);
  CHECK(end_of(dies_at_a_fault) == SIGSEGV);
  CHECK(end_of(dies_in_computation) == SIGSEGV);
  CHECK(end_of(dies_when_handlers_fill_the_other_stack) == SIGSEGV);

  // What the kernel has written of a frame stays, below the stack.
  uint64_t sum = 0;
  int without = 0;
  for (room = LEAST; room <= MOST; room += 192) {
    memset(small + PAGE, 0x55, MOST);
    if (sigsetjmp(back, 1) == 0)
      in_little_room(by_call);
    else
      without++;
    for (size_t i = 0; i < room - 256; i++) sum = sum * 31 + (unsigned char)small[PAGE + i];
  }
  CHECK(without > 0 && handled > 0 && saved == 9 + without);

  const struct rlimit low = {1 << 20, 1 << 20};
  CHECK(setrlimit(RLIMIT_STACK, &low) == 0);
  handled = 0;
  if (sigsetjmp(back, 1) == 0) CHECK(down((char *)&sum, 0) == -1);
  CHECK(handled > 10);
  printf("%d handlers, ", handled);
  printf("%lu rounds, %d without room, %lx\n", rounds, without, sum);
  return guest_ok();
}
