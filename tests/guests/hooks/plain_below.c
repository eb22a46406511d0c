// unstopped: madvise
// Plain memory at low addresses, where programs lie that are not moved: it is mapped over, protected, taken back, and given back,
// up to near the memory of bis's own, which lies at 0x70000000.
#include "../guest.h"

enum { PAGES = 32, TIMES = 50 };

static void work(unsigned char *at) {
  for (int i = 0; i < TIMES; i++) {
    unsigned char *page = at + (size_t)PAGE * (i % (PAGES - 4));
    memset(page, i + 1, 3 * PAGE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(page + PAGE, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == page + PAGE);
    CHECK(page[PAGE] == 0 && page[PAGE - 1] == (unsigned char)(i + 1) && page[2 * PAGE] == (unsigned char)(i + 1));
    CHECK(mprotect(page, PAGE, PROT_READ) == 0 && page[7] == (unsigned char)(i + 1));
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    page[7] = 9;
    CHECK(madvise(page + 2 * PAGE, PAGE, MADV_DONTNEED) == 0 && page[2 * PAGE] == 0);
  }
  CHECK(munmap(at + PAGE, (PAGES - 2) * PAGE) == 0);
  CHECK(munmap(at, PAGE) == 0 && munmap(at + (PAGES - 1) * PAGE, PAGE) == 0);
}

int main(void) {
  unsigned long places[] = {0x20000000, 0x6f000000, 0x6fe00000 - PAGES * PAGE, 0xfff00000, 0x100000000};
  for (int i = 0; i < 5; i++) {
    unsigned char *at = mmap((void *)places[i], PAGES * PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    // Something else may lie there, but for the first place.
    CHECK(i > 0 || at == (unsigned char *)places[i]);
    if (at != (unsigned char *)places[i]) continue;
    work(at);
  }
  return guest_ok();
}
