// A 32-bit system call out of a 64-bit program: it works where the kernel has them, and must not be taken for another
// call.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf back;
static void on_fault(int sig) {
  (void)sig;
  siglongjmp(back, 1);
}

int main(void) {
  signal(SIGSEGV, on_fault);
  if (sigsetjmp(back, 1)) {
    printf("this kernel has no int 0x80\n");
    return guest_ok();
  }
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");  // getpid of i386
  CHECK(result == getpid());
  printf("int 0x80 gave %ld\n", result);
  return guest_ok();
}
