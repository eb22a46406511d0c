// The stack cannot grow because the address space may not (RLIMIT_AS), long before the stack's own limit is reached: SIGSEGV.
// With room again, it grows on.
#include "../guest.h"

#include <setjmp.h>
#include <sys/resource.h>

static char alt[1 << 16];
static sigjmp_buf out;
static volatile int depth;

static void on_segv(int sig) {
  (void)sig;
  siglongjmp(out, 1);
}

__attribute__((noinline)) static int deeper(int n) {
  volatile char page[4000];
  page[0] = (char)n;
  depth = n;
  return n < 1500 ? deeper(n + 1) + page[0] : page[0];
}

int main(void) {
  stack_t stack = {.ss_sp = alt, .ss_size = sizeof alt};
  CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction sa = {.sa_handler = on_segv, .sa_flags = SA_ONSTACK};
  CHECK(sigaction(SIGSEGV, &sa, NULL) == 0);
  struct rlimit own;
  CHECK(getrlimit(RLIMIT_AS, &own) == 0);
  CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){40 << 20, own.rlim_max}) == 0);
  while (mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED) {
  }
  CHECK(errno == ENOMEM);
  for (int i = 0; i < 2; i++) {
    if (sigsetjmp(out, 1) == 0) deeper(0);
    CHECK(depth < 600);
  }
  CHECK(setrlimit(RLIMIT_AS, &own) == 0);
  CHECK(sigsetjmp(out, 1) == 0);
  deeper(0);
  CHECK(depth == 1500);
  return guest_ok();
}
