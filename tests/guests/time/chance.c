// rdrand, rdseed and rdpid in programs that do not ask cpuid: all registers and sizes, the flags, nothing else changed.
// hooked: nothing makes these instructions fault, so only text that is patched is recorded
#include "around.h"
#include "chance.h"

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
