// A program asks which core it is on, unseen as in `cpuid_in_assembly`, between thousands of calls that need no stop, while others compute:
// it stays on its core, however much it gains by another one.
#include "../guest.h"

__asm__(".pushsection .text\n"
        "  .byte 0x0f, 0x0b, 0x66, 0x90\n"
        "core:\n"
        "  pushq %rbx\n"
        "  movl $1, %eax\n"
        "  xorl %ecx, %ecx\n"
        "  cpuid\n"
        "  movl %ebx, %eax\n"
        "  shrl $24, %eax\n"
        "  popq %rbx\n"
        "  ret\n"
        "  .byte 0x0f, 0x0b, 0x66, 0x90\n"
        ".popsection\n");

uint32_t core(void);

int main(void) {
  pid_t others[3];
  for (int i = 0; i < 3; i++) {
    CHECK((others[i] = fork()) >= 0);
    if (others[i] == 0)
      for (volatile unsigned long n = 0;; n++) continue;
  }
  int file = open("/proc/self/exe", O_RDONLY);
  char bytes[64];
  uint64_t sum = 0;
  for (int64_t begin = now_ns(); now_ns() - begin < 700000000;) {
    CHECK(pread(file, bytes, sizeof bytes, 0) == sizeof bytes);
    sum = sum * 31 + core();
  }
  for (int i = 0; i < 3; i++) {
    CHECK(kill(others[i], SIGKILL) == 0);
    check_killed(others[i], SIGKILL);
  }
  printf("%llx\n", (unsigned long long)sum);
  return guest_ok();
}
