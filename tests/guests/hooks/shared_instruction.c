// A vfork and the calls of its child are made by one instruction, which is learned while the parent sleeps in the vfork.
#include "../guest.h"

// vfork(), and in the child getppid and _exit(arg), without a return: child and parent share the stack. All by one syscall, to
// whose run belongs what comes after it.
__attribute__((noinline)) static long vfork_and_exit(long arg) {
  long result;
  __asm__ volatile(
      "xor %%r12d, %%r12d\n mov $58, %%eax\n"
      "1: syscall\n add $1, %%r12\n test %%rax, %%rax\n jz 2f\n cmp $2, %%r12\n je 3f\n jmp 4f\n"
      "2: mov $110, %%eax\n jmp 1b\n" // in the child
      "3: mov $231, %%eax\n jmp 1b\n"
      "4:\n"
      : "=a"(result)
      : "D"(arg)
      : "rcx", "r11", "r12", "cc", "memory");
  return result;
}

int main(void) {
  for (int i = 0; i < 3; i++) {
    long child = vfork_and_exit(40 + i);
    CHECK(child > 0);
    check_exited((pid_t)child, 40 + i);
    printf("child %ld\n", child);
  }
  return guest_ok();
}
