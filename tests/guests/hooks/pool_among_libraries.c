// An allocator gives out and takes back pages of a large pool, in a program with more libraries than the hooks' list of plain memory once
// had room for; and says of some pages what makes no difference to that. None of it stops the program.
// unstopped: mprotect madvise
#include "../guest.h"

#define LIBRARIES 200
#define POOL (1l << 30)
#define ROUNDS 3000

static char *map(void *at, size_t len, int prot, int flags) {
  char *m = mmap(at, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  CHECK(m != MAP_FAILED);
  return m;
}

int main(void) {
  // Two ranges each that do not touch: behind one is what may be executed, behind the other one nothing.
  for (int i = 0; i < LIBRARIES; i++) {
    char *library = map(NULL, 8 * PAGE, PROT_READ, 0);
    CHECK(mprotect(library + PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
    CHECK(munmap(library + 4 * PAGE, 2 * PAGE) == 0);
    CHECK(mprotect(library + 6 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    library[6 * PAGE] = 1;
  }
  char *pool = map(NULL, POOL, PROT_NONE, 0);
  for (int i = 0; i < 8; i++) CHECK(madvise(pool + i * 64 * PAGE, PAGE, MADV_DONTDUMP) == 0);
  uint64_t sum = 0;
  for (int round = 0; round < ROUNDS; round++) {
    char *span = pool + (size_t)(round * 7 % 500) * 4 * PAGE;
    CHECK(mprotect(span, 4 * PAGE, PROT_READ | PROT_WRITE) == 0);
    for (int i = 0; i < 4; i++) sum = sum * 31 + (uint64_t)(span[i * PAGE]++ + round);
    if (round % 2) continue;
    CHECK(madvise(span, 4 * PAGE, MADV_DONTNEED) == 0);
    for (int i = 0; i < 4; i++) CHECK(span[i * PAGE] == 0);
    CHECK(mprotect(span, 4 * PAGE, PROT_NONE) == 0);
  }
  printf("%llx\n", (unsigned long long)sum);
  return guest_ok();
}
