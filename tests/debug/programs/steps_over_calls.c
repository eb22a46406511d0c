// System calls in a row with known instructions between them: of the ones that map memory, and of others.
#include <stdio.h>

int main(void) {
  long map;
  __asm__ volatile(
      "xor %%r9d, %%r9d\n"
      "mov $-1, %%r8\n"
      "mov $0x22, %%r10d\n"
      "mov $3, %%edx\n"
      "mov $0x2000, %%esi\n"
      "xor %%edi, %%edi\n"
      "mov $9, %%eax\n"
      ".globl mapping\n"
      "mapping: syscall\n"
      ".globl behind_mapping\n"
      "behind_mapping: mov %%rax, %%rbx\n"
      "mov %%rax, %%rdi\n"
      "mov $0x2000, %%esi\n"
      "mov $11, %%eax\n"
      ".globl unmapping\n"
      "unmapping: syscall\n"
      ".globl behind_unmapping\n"
      "behind_unmapping: mov %%rax, %%r12\n"
      "mov $39, %%eax\n"
      ".globl asking\n"
      "asking: syscall\n"
      ".globl behind_asking\n"
      "behind_asking: mov %%rax, %%r13\n"
      "mov $39, %%eax\n"
      "syscall\n"
      : "=b"(map)
      :
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "memory");
  printf("mapped at %#lx\n", map);
  return 0;
}
