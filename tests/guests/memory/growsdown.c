// The stack grows down by itself over 4 MB, in a call and from deep recursion; MAP_GROWSDOWN likewise.
#include "../guest.h"

static int deep(int n) {
  volatile char frame[1000];
  frame[0] = (char)n;
  frame[999] = (char)(n + 1);
  return n == 0 ? 0 : deep(n - 1) + (frame[999] - frame[0] == 1 || frame[0] == 127);
}

__attribute__((noinline)) static uint64_t wide(void) {
  volatile char frame[1 << 20];
  for (int i = (1 << 20) - 1; i >= 0; i -= 1000) frame[i] = (char)i;
  return (uintptr_t)frame;
}

int main(void) {
  CHECK(deep(3000) == 3000);
  uint64_t at = wide();
  // read() puts data below the present stack's end as well.
  char *below = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(munmap(below, 64 * PAGE) == 0);
  char *g = mmap(below + 63 * PAGE, PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
  CHECK(g == below + 63 * PAGE);
  volatile char *v = g;
  v[0] = 1;
  v[-1] = 2;
  v[-PAGE - 1] = 3;
  CHECK(v[0] == 1 && v[-1] == 2 && v[-PAGE - 1] == 3 && v[-2] == 0);
  CHECK(munmap(g - 2 * PAGE, 3 * PAGE) == 0);
  printf("wide frame at %lx, growing mapping at %p\n", at, g);
  return guest_ok();
}
