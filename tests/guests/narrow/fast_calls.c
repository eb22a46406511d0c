// cflags: -m32
// needs: /usr/lib32/crt1.o
// A call that a 32-bit program makes itself by `syscall` comes back in its vdso. Without a stack from which the kernel could read the
// sixth argument it is no call, and comes back there all the same. (Only AMD's processors have that in 32-bit text.)
#include "../guest.h"
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf back;
static greg_t at[NGREG];

static void on_fault(int sig, siginfo_t *info, void *context) {
  (void)info;
  memcpy(at, ((ucontext_t *)context)->uc_mcontext.gregs, sizeof at);
  siglongjmp(back, sig);
}

// As the vdso's own function does it: what it has pushed is popped where the call comes back.
static long call(long nr, long a, long b) {
  long result;
  __asm__ volatile("call 1f\n jmp 2f\n 1: push %%ecx\n push %%edx\n push %%ebp\n mov %%ecx, %%ebp\n syscall\n ud2\n 2:"
                   : "=a"(result), "+c"(b)
                   : "0"(nr), "b"(a)
                   : "memory", "edx", "cc");
  return result;
}

static int call_without_stack(unsigned long stack) {
  int sig = sigsetjmp(back, 1);
  if (sig == 0) __asm__ volatile("mov %0, %%esp\n mov %0, %%ebp\n mov $20, %%eax\n syscall\n ud2" ::"r"(stack) : "memory", "eax");
  return sig;
}

static char other_stack[64 * 1024];

int main(void) {
  stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  CHECK(sigaltstack(&other, NULL) == 0);
  on_siginfo(SIGSEGV, on_fault, SA_ONSTACK);
  on_siginfo(SIGILL, on_fault, SA_ONSTACK);
  int sig = sigsetjmp(back, 1);
  if (sig == SIGILL) {
    puts("this processor has no syscall in 32-bit text");
    return guest_ok();
  }
  CHECK(sig == 0 && call(20, 0, 0) == getpid());
  for (int round = 0; round < 3; round++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    CHECK(call(20, 0, 0) == getpid() && call(37, 0x7fffffff, 0) == -ESRCH);
    static const unsigned long nowhere[] = {0, 8, 0x1000, 0xfffffffc};
    for (int i = 0; i < 4; i++) {
      CHECK(call_without_stack(nowhere[i]) == SIGSEGV);
      CHECK((unsigned long)at[REG_ESP] == nowhere[i] && at[REG_EAX] == -EFAULT);
      printf("%d: comes back at %#lx\n", getpid(), (unsigned long)at[REG_EIP]);
    }
    if (pid == 0) _exit(round);
    check_exited(pid, round);
  }
  return guest_ok();
}
