// A thousand mappings made, split, protected and dropped in a fixed wild order; a shadow says what must be there.
#include "../guest.h"

#define N 512
static char shadow[N];

int main(void) {
  char *base = mmap(NULL, N * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(base != MAP_FAILED);
  uint32_t x = 12345;
  for (int round = 0; round < 1000; round++) {
    x = x * 1103515245 + 12345;
    int at = (x >> 8) % N, len = (x >> 20) % 8 + 1;
    if (at + len > N) len = N - at;
    char *p = base + at * PAGE;
    switch ((x >> 4) % 3) {
      case 0:
        CHECK(mmap(p, len * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
        for (int i = 0; i < len; i++) p[i * PAGE + 17] = shadow[at + i] = (char)(round % 120 + 1);
        break;
      case 1:
        CHECK(munmap(p, len * PAGE) == 0);
        memset(shadow + at, 0, len);
        break;
      default:
        for (int i = 0; i < len; i++)
          if (shadow[at + i]) CHECK(mprotect(p + i * PAGE, PAGE, round % 2 ? PROT_READ : PROT_READ | PROT_WRITE) == 0);
    }
  }
  int mapped = 0;
  for (int i = 0; i < N; i++)
    if (shadow[i]) {
      CHECK(base[i * PAGE + 17] == shadow[i] && base[i * PAGE + 18] == 0);
      mapped++;
    }
  printf("%d pages are mapped at %p\n", mapped, base);
  return guest_ok();
}
