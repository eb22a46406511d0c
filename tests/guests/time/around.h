// One instruction between all registers loaded and all stored, for those that write one of them.
#ifndef AROUND_H
#define AROUND_H
#include <stdint.h>

struct regs {
  uint64_t r[15]; // all but rsp, in this order: rax rcx rdx rbx rbp rsi rdi r8...r15
  uint64_t flags;
};
struct regs before, after;

// Loads all registers, executes one instruction, stores them all.
#define AROUND(insn)                                                                                                \
  do {                                                                                                              \
    __asm__ volatile("push %%rbp\npush %%rbx\nsub $128, %%rsp\n"                                                    \
                     "movq before+120(%%rip), %%rax\npush %%rax\npopfq\n"                                           \
                     "movq before(%%rip), %%rax\nmovq before+8(%%rip), %%rcx\nmovq before+16(%%rip), %%rdx\n"       \
                     "movq before+24(%%rip), %%rbx\nmovq before+32(%%rip), %%rbp\nmovq before+40(%%rip), %%rsi\n"   \
                     "movq before+48(%%rip), %%rdi\nmovq before+56(%%rip), %%r8\nmovq before+64(%%rip), %%r9\n"     \
                     "movq before+72(%%rip), %%r10\nmovq before+80(%%rip), %%r11\nmovq before+88(%%rip), %%r12\n"   \
                     "movq before+96(%%rip), %%r13\nmovq before+104(%%rip), %%r14\nmovq before+112(%%rip), %%r15\n" \
                     insn "\nnop\nnop\n"                                                                            \
                     "movq %%rax, after(%%rip)\nmovq %%rcx, after+8(%%rip)\nmovq %%rdx, after+16(%%rip)\n"          \
                     "movq %%rbx, after+24(%%rip)\nmovq %%rbp, after+32(%%rip)\nmovq %%rsi, after+40(%%rip)\n"      \
                     "movq %%rdi, after+48(%%rip)\nmovq %%r8, after+56(%%rip)\nmovq %%r9, after+64(%%rip)\n"        \
                     "movq %%r10, after+72(%%rip)\nmovq %%r11, after+80(%%rip)\nmovq %%r12, after+88(%%rip)\n"      \
                     "movq %%r13, after+96(%%rip)\nmovq %%r14, after+104(%%rip)\nmovq %%r15, after+112(%%rip)\n"    \
                     "pushfq\ncld\npop %%rax\nmovq %%rax, after+120(%%rip)\nadd $128, %%rsp\npop %%rbx\npop %%rbp"       \
                     : : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", \
                       "cc", "memory");                                                                             \
  } while (0)

// Each register that such an instruction may write, with its number in `struct regs`.
#define ALL(one)                                                                                                \
  one("rax", "eax", "ax", 0) one("rcx", "ecx", "cx", 1) one("rdx", "edx", "dx", 2) one("rbx", "ebx", "bx", 3)   \
  one("rbp", "ebp", "bp", 4) one("rsi", "esi", "si", 5) one("rdi", "edi", "di", 6) one("r8", "r8d", "r8w", 7)   \
  one("r9", "r9d", "r9w", 8) one("r10", "r10d", "r10w", 9) one("r11", "r11d", "r11w", 10)                       \
  one("r12", "r12d", "r12w", 11) one("r13", "r13d", "r13w", 12) one("r14", "r14d", "r14w", 13)                  \
  one("r15", "r15d", "r15w", 14)

#endif
