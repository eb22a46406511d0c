// Many numbers from the processor without a system call between them: in a loop, under a timer whose handler asks for some as
// well, in threads that take turns, in a forked child; also where there is no room for a jump.
// hooked: nothing makes these instructions fault, so only text that is patched is recorded
#include "chance.h"
#include "everywhere.h"

// The instruction and what follows are 4 bytes.
__asm__(".p2align 4,0xcc\n.globl short_rdrand\n.type short_rdrand,@function\nshort_rdrand: rdrand %eax\nret\n"
        ".size short_rdrand,.-short_rdrand\n.p2align 4,0xcc\n");
uint32_t short_rdrand(void);

static uint64_t many(int n) {
  uint64_t h = 0;
  for (int i = 0; i < n; i++) {
    h = h * 31 + rdrand64() + rdpid();
    if (i % 64 == 0) h += short_rdrand();
  }
  return h;
}

static void try(void) { rdrand64(), rdpid(); }

int main(void) {
  if (!works(try)) {
    puts("the processor has no rdrand or no rdpid");
    return guest_ok();
  }
  everywhere(many);
  return guest_ok();
}
