// A program asks which core it is on, by an instruction in text of which nobody says that it is a function: neither unwind tables nor
// symbols with a size. Nothing can take its place, and on many processors nothing makes it fault.
#include "../guest.h"

__asm__(".pushsection .text\n"
        "  .byte 0x0f, 0x0b, 0x66, 0x90\n"
        "ask:\n"
        "  pushq %rbx\n"
        "  movl %edi, %eax\n"
        "  xorl %ecx, %ecx\n"
        "  cpuid\n"
        "  movl %ebx, %eax\n"
        "  shlq $32, %rdx\n"
        "  orq %rdx, %rax\n"
        "  popq %rbx\n"
        "  ret\n"
        "  .byte 0x0f, 0x0b, 0x66, 0x90\n"
        ".popsection\n");

uint64_t ask(uint32_t leaf);

int main(void) {
  for (int round = 0; round < 8; round++) {
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
      CHECK((children[i] = fork()) >= 0);
      if (children[i]) continue;
      uint64_t sum = 0;
      for (int k = 0; k < 200; k++) sum = sum * 31 + (ask(1) & 0xffffffff) + (ask(0xb) >> 32);
      printf("child %d: core %x, %lx\n", i, (unsigned)(ask(1) >> 24 & 0xff), sum);
      _exit(0);
    }
    for (int i = 0; i < 4; i++) check_exited(children[i], 0);
  }
  return guest_ok();
}
