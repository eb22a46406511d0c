// SIGFPE, SIGILL, SIGTRAP by int3, SIGSEGV by a non-canonical address: codes, and resuming after each.
#include "../guest.h"
#include <ucontext.h>

static volatile int sig_seen, code_seen, skip;
static volatile uintptr_t addr_seen;

static void handler(int sig, siginfo_t *info, void *ctx) {
  sig_seen = sig, code_seen = info->si_code, addr_seen = (uintptr_t)info->si_addr;
  ((ucontext_t *)ctx)->uc_mcontext.gregs[REG_RIP] += skip;
}

int main(void) {
  int sigs[] = {SIGFPE, SIGILL, SIGTRAP, SIGSEGV, SIGBUS};
  for (int i = 0; i < 5; i++) on_siginfo(sigs[i], handler, 0);
  skip = 2;  // div ecx
  uint32_t a = 10, d = 0;
  __asm__ volatile("divl %%ecx" : "+a"(a), "+d"(d) : "c"(0));
  CHECK(sig_seen == SIGFPE && code_seen == FPE_INTDIV);
  __asm__ volatile("ud2");
  CHECK(sig_seen == SIGILL && code_seen == ILL_ILLOPN);
  skip = 0;
  __asm__ volatile("int3");
  CHECK(sig_seen == SIGTRAP && code_seen == SI_KERNEL);
  skip = 1;
  __asm__ volatile("hlt");
  CHECK(sig_seen == SIGSEGV && code_seen == SI_KERNEL && addr_seen == 0);
  skip = 3;
  __asm__ volatile("movq (%%rcx), %%rax" : : "c"(0x8000000000000000ul) : "rax");
  CHECK(sig_seen == SIGSEGV && code_seen == SI_KERNEL);
  printf("%d %d\n", sig_seen, code_seen);
  return guest_ok();
}
