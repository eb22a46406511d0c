// What is in the upper half of the register of a call's number is none of the kernel's business.
#include "../guest.h"

static long call(unsigned long number) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(0L), "S"(0L), "d"(0L) : "rcx", "r11", "memory");
  return result;
}

int main(void) {
  static const unsigned long high[] = {0, 1UL << 32, 0xffffffffUL << 32, 0x7fffffffUL << 32, 0x40000000UL << 32};
  long pid = getpid();
  for (size_t i = 0; i < sizeof high / sizeof *high; i++)
    for (int n = 0; n < 50; n++) CHECK(call(high[i] | SYS_getpid) == pid);
  CHECK(call(-1UL) == -ENOSYS && call(0xffffffffUL) == -ENOSYS && call(1UL << 31) == -ENOSYS);
  return guest_ok();
}
