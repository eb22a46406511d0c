// lsl of the segment whose limit is the core's number, where the kernel keeps it for getcpu: the core that a program is told
// otherwise, too. All registers, sizes and selectors, nothing else changed; where there is no room for a jump; in a loop
// under a timer, in threads, in a forked child.
// hooked: nothing makes it fault, so only text that is patched is recorded
#include "../guest.h"
#include "around.h"
#include "everywhere.h"
#include <sys/sysinfo.h>

struct regs before, after;

enum { CORE = 0x7b, FLAGS = 0x8d5, ZF = 0x40 };

static int cores;

// Register `reg` has a core's number, of so many bytes, all others are as before.
static void check(int reg, int bytes) {
  CHECK((after.flags & 0x400) == (before.flags & 0x400));
  CHECK((after.flags & FLAGS) == ((before.flags & FLAGS) | ZF));
  for (int i = 0; i < 15; i++) {
    if (i != reg) CHECK(after.r[i] == before.r[i]);
  }
  if (bytes == 2) CHECK((after.r[reg] ^ before.r[reg]) >> 16 == 0);
  else CHECK(after.r[reg] >> 20 == 0);
  CHECK((after.r[reg] & 0xfff) < (unsigned)cores);
  printf("%d %d %lx\n", reg, bytes, after.r[reg]);
}

// The selector is where `src` says; what is above its 16 bits does not count.
static void put(int src) {
  for (int i = 0; i < 15; i++) before.r[i] = 0x0123456789abcdefull * (i + 3);
  before.r[src] = 0xfedcba9876540000ull | CORE;
}

// From rcx, from r11, from the register itself; to rax.
#define LIMIT(wide, half, small, n)                         \
  put(1); AROUND("lsl %%rcx, %%" wide); check(n, 8);        \
  put(10); AROUND("lsl %%r11d, %%" half); check(n, 4);      \
  put(10); AROUND("lsl %%r11w, %%" small); check(n, 2);     \
  put(n); AROUND("lsl %%" half ", %%" half); check(n, 4);   \
  put(n); AROUND("lsl %%" half ", %%eax"); check(0, 4);

// The limit, or `none` where there is no such segment.
static inline uint32_t limit_of(uint32_t selector, uint32_t none, bool *found) {
  uint32_t limit = none;
  __asm__ volatile("lsl %2, %0\nsetz %1\nnop\nnop" : "+r"(limit), "=qm"(*found) : "r"(selector) : "cc");
  return limit;
}

// Too short for a jump, each of them.
__asm__(".p2align 4,0xcc\n.globl short_wide\n.type short_wide,@function\nshort_wide: lsl %edi, %eax\nret\n.size short_wide,.-short_wide\n"
        ".p2align 4,0xcc\n.globl short_small\n.type short_small,@function\nshort_small: lsl %di, %si\nret\n"
        ".size short_small,.-short_small\n.p2align 4,0xcc\n");
uint32_t short_wide(uint32_t selector);
void short_small(uint32_t selector, uint32_t none);

static uint64_t many(int n) {
  uint64_t h = 0;
  bool found;
  for (int i = 0; i < n; i++) h = h * 31 + limit_of(CORE, 0, &found);
  return h;
}

// A prefix that means nothing here does not make it another instruction.
static bool with_prefix(uint32_t selector, uint32_t *limit) {
  bool found;
  __asm__ volatile(".byte 0xf3\nlsl %2, %0\nsetz %1\nnop\nnop" : "+r"(*limit), "=qm"(found) : "r"(selector) : "cc");
  return found;
}

int main(void) {
  bool found;
  cores = get_nprocs_conf();
  for (int round = 0; round < 3; round++) {
    before.flags = round == 0 ? 0x202 : round == 1 ? 0x202 | FLAGS : 0x602 | 1;
    ALL(LIMIT)
  }
  for (uint32_t selector = 0; selector < 0x100; selector++) {
    uint32_t limit = limit_of(selector, 0x12345678, &found);
    CHECK(found || limit == 0x12345678);
    if ((selector & ~3) == 0x78) CHECK(found && (limit & 0xfff) < (unsigned)cores);
    if (selector == 0x33 || selector == 0x2b) CHECK(found && limit == 0xffffffff);
    if (selector < 4 || selector == 0x10 || selector == 0x7f) CHECK(!found);
    printf("%x: %d %x, %x\n", selector, found, limit, found ? short_wide(selector) : 0);
    if (found && (selector & ~3) != 0x78) CHECK(short_wide(selector) == limit);
  }
  for (int i = 0; i < 20; i++) {
    printf("%x %d\n", short_wide(CORE) & 0xfff, sched_getcpu());
    short_small(CORE, 0);
  }
  uint32_t limit = 1;
  CHECK(with_prefix(0x2b, &limit) && limit == 0xffffffff);
  CHECK(!with_prefix(0x10, &limit) && limit == 0xffffffff);
  everywhere(many);
  return guest_ok();
}
