// The handler's context: general and vector registers are as they were, survive the handler, and may be changed.
#include "../guest.h"
#include <ucontext.h>

static volatile int phase;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)info;
  ucontext_t *uc = ctx;
  greg_t *g = uc->uc_mcontext.gregs;
  CHECK((g[REG_CSGSFS] & 0xffff) == 0x33);
  CHECK(g[REG_R12] == 0x1212121212121212 && g[REG_R15] == 0x1515151515151515);
  struct _libc_fpstate *fp = uc->uc_mcontext.fpregs;
  CHECK(fp->_xmm[7].element[0] == 0x07070707);
  // Everything here is clobbered on purpose; sigreturn brings it back, but for what we change in the frame.
  __asm__ volatile("xorq %%r12, %%r12\n pxor %%xmm7, %%xmm7\n" ::: "r12", "xmm7");
  g[REG_R13] = 0x1313;
  fp->_xmm[6].element[0] = 0x66;
  phase++;
}

int main(void) {
  on_siginfo(SIGUSR1, handler, 0);
  uint64_t r12, r13, r15, x6, x7;
  long pid = getpid(), tid = tid_self();
  __asm__ volatile(
      "movq $0x1212121212121212, %%r12\n movq $0x1515151515151515, %%r15\n"
      "movq $0x0606060606060606, %%rax\n movq %%rax, %%xmm6\n"
      "movq $0x0707070707070707, %%rax\n movq %%rax, %%xmm7\n"
      "movl $234, %%eax\n movq %5, %%rdi\n movq %6, %%rsi\n movl $10, %%edx\n syscall\n"
      "movq %%r12, %0\n movq %%r13, %1\n movq %%r15, %2\n movq %%xmm6, %3\n movq %%xmm7, %4\n"
      : "=m"(r12), "=m"(r13), "=m"(r15), "=m"(x6), "=m"(x7)
      : "m"(pid), "m"(tid)
      : "rax", "rcx", "rdx", "rdi", "rsi", "r11", "r12", "r13", "r15", "xmm6", "xmm7", "memory");
  CHECK(phase == 1 && r12 == 0x1212121212121212 && r13 == 0x1313 && r15 == 0x1515151515151515);
  CHECK(x7 == 0x0707070707070707 && (uint32_t)x6 == 0x66);
  printf("%lx %lx\n", x6, x7);
  return guest_ok();
}
