// mprotect with PROT_GROWSDOWN: all of a mapping that grows down is protected, from its begin on, and so is what it grows by later. As
// glibc makes a stack executable.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile void *where;
static void handler(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  where = info->si_addr;
  siglongjmp(back, 1);
}

static bool faults(volatile char *at) {
  where = NULL;
  if (sigsetjmp(back, 1)) return where == at;
  *at = 1;
  return false;
}

// Code on the stack, far below what it has grown to.
__attribute__((noinline)) static int runs_below(void) {
  volatile unsigned char room[200 * PAGE];
  static const unsigned char code[] = {0xb8, 0x2a, 0, 0, 0, 0xc3}; // mov $42, %eax; ret
  for (size_t i = 0; i < sizeof code; i++) room[i] = code[i];
  int (*function)(void) = (int (*)(void))(uintptr_t)room;
  return function();
}

int main(void) {
  static char stack[1 << 16];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  CHECK(sigaltstack(&alternate, NULL) == 0);
  on_siginfo(SIGSEGV, handler, SA_ONSTACK);
  char *free = mmap(NULL, 600 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(free != MAP_FAILED && munmap(free, 600 * PAGE) == 0);
  char *top = free + 599 * PAGE;
  CHECK(mmap(top, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == top);
  CHECK(!faults(top - 1) && !faults(top - PAGE - 1));
  // From its last page down, with room for more.
  CHECK(mprotect(top, PAGE, PROT_READ | PROT_GROWSDOWN) == 0);
  CHECK(faults(top) && faults(top - 1) && faults(top - PAGE - 1));
  CHECK(top[-2 * PAGE - 1] == 0);
  CHECK(faults(top - 2 * PAGE - 1));
  CHECK(mprotect(top, PAGE, PROT_READ | PROT_WRITE | PROT_GROWSDOWN) == 0);
  CHECK(!faults(top) && !faults(top - 2 * PAGE - 1) && !faults(top - 3 * PAGE - 1));
  // In the middle: what lies above is as it was.
  CHECK(mprotect(top - 2 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN) == 0);
  CHECK(faults(top - 2 * PAGE) && faults(top - 3 * PAGE) && !faults(top - PAGE) && !faults(top));
  // One that does not grow.
  char *plain = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK_ERRNO(mprotect(plain, PAGE, PROT_READ | PROT_WRITE | PROT_GROWSDOWN), EINVAL);
  // The stack.
  char here;
  char *page = (char *)((uintptr_t)&here & -(uintptr_t)PAGE);
  CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC | PROT_GROWSDOWN) == 0);
  pid_t child = fork();
  if (child == 0) _exit(runs_below() == 42 ? 0 : 1);
  check_exited(child, 0);
  CHECK(runs_below() == 42);
  return guest_ok();
}
