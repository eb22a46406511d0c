// A stack overflow handled on an alternate stack, by siglongjmp; SS_ONSTACK, SS_DISABLE, SS_AUTODISARM.
#include "../guest.h"
#include <setjmp.h>
#include <sys/resource.h>

static char *alt;
static size_t alt_len = 1 << 16;
static sigjmp_buf back;
static volatile uintptr_t fault;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)ctx;
  char here;
  CHECK(&here > alt && &here < alt + alt_len);
  stack_t now;
  CHECK(sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK));
  CHECK_ERRNO(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL), EPERM);
  fault = (uintptr_t)info->si_addr;
  siglongjmp(back, 1);
}

static int overflow(int n) {
  volatile char frame[4096];
  frame[0] = (char)n;
  return n > 1 << 28 ? 0 : overflow(n + 1) + frame[0];
}

int main(void) {
  struct rlimit small = {1 << 20, RLIM_INFINITY};
  getrlimit(RLIMIT_STACK, &small);
  small.rlim_cur = 1 << 20;
  CHECK(setrlimit(RLIMIT_STACK, &small) == 0);
  alt = mmap(NULL, alt_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t st = {.ss_sp = alt, .ss_size = alt_len};
  CHECK(sigaltstack(&st, NULL) == 0);
  on_siginfo(SIGSEGV, handler, SA_ONSTACK);
  for (int i = 0; i < 2; i++)
    if (sigsetjmp(back, 1) == 0) CHECK(overflow(0) == -1);
  CHECK(fault != 0);
  stack_t old;
  CHECK(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, &old) == 0 && old.ss_sp == alt && old.ss_flags == 0);
  CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
  CHECK_ERRNO(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = 100}, NULL), ENOMEM);
  printf("overflowed at %lx\n", fault);
  return guest_ok();
}
