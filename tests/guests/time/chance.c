// rdrand, rdseed and rdpid in programs that do not ask cpuid: all registers and sizes, the flags, nothing else changed.
// hooked: nothing makes these instructions fault, so only text that is patched is recorded
#include "chance.h"

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

enum { FLAGS = 0x8d5, CF = 1 };

// Register `reg` has a number of `bytes` bytes, all others are as before. rdrand and rdseed clear flags.
static void check(int reg, int bytes, bool flags) {
  CHECK((after.flags & 0x400) == (before.flags & 0x400));
  for (int i = 0; i < 15; i++) {
    if (i != reg) CHECK(after.r[i] == before.r[i]);
  }
  if (bytes == 4) CHECK(after.r[reg] >> 32 == 0);
  if (bytes == 2) CHECK((after.r[reg] ^ before.r[reg]) >> 16 == 0);
  if (flags) {
    CHECK((after.flags & FLAGS & ~CF) == 0);
    if (!(after.flags & CF)) CHECK((after.r[reg] & (bytes == 2 ? 0xffff : ~0ul)) == 0);
  } else {
    CHECK((after.flags & FLAGS) == (before.flags & FLAGS));
  }
  printf("%d %d %lx\n", reg, bytes, after.r[reg]);
}

#define ALL(one)                                                                                                \
  one("rax", "eax", "ax", 0) one("rcx", "ecx", "cx", 1) one("rdx", "edx", "dx", 2) one("rbx", "ebx", "bx", 3)   \
  one("rbp", "ebp", "bp", 4) one("rsi", "esi", "si", 5) one("rdi", "edi", "di", 6) one("r8", "r8d", "r8w", 7)   \
  one("r9", "r9d", "r9w", 8) one("r10", "r10d", "r10w", 9) one("r11", "r11d", "r11w", 10)                       \
  one("r12", "r12d", "r12w", 11) one("r13", "r13d", "r13w", 12) one("r14", "r14d", "r14w", 13)                  \
  one("r15", "r15d", "r15w", 14)

#define RANDOM(name, wide, half, small, n)                                             \
  AROUND(name " %%" wide); check(n, 8, true);                                          \
  AROUND(name " %%" half); check(n, 4, true);                                          \
  AROUND(name " %%" small); check(n, 2, true);
#define RDRAND(wide, half, small, n) RANDOM("rdrand", wide, half, small, n)
#define RDSEED(wide, half, small, n) RANDOM("rdseed", wide, half, small, n)
#define RDPID(wide, half, small, n) AROUND("rdpid %%" wide); check(n, 8, false);

static void try_rdrand(void) { rdrand64(); }
static void try_rdseed(void) { rdseed64(); }
static void try_rdpid(void) { rdpid(); }

int main(void) {
  for (int i = 0; i < 15; i++) before.r[i] = 0x0123456789abcdefull * (i + 3);
  for (int round = 0; round < 3; round++) {
    before.flags = round == 0 ? 0x202 : round == 1 ? 0x202 | FLAGS : 0x602 | CF;
    // The direction flag is the third round's.
    if (works(try_rdrand)) {
      ALL(RDRAND)
    }
    if (works(try_rdseed)) {
      ALL(RDSEED)
    }
    if (works(try_rdpid)) {
      ALL(RDPID)
    }
  }
  return guest_ok();
}
