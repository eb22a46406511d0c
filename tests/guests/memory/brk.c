// The heap's end: up, down and up again gives zeros; malloc of many sizes.
#include "../guest.h"

int main(void) {
  char *start = sbrk(0);
  CHECK(start != (void *)-1);
  CHECK(sbrk(10 * PAGE) == start);
  memset(start, 'h', 10 * PAGE);
  CHECK(brk(start + PAGE) == 0 && sbrk(0) == start + PAGE && start[100] == 'h');
  CHECK(brk(start + 10 * PAGE) == 0);
  for (int i = 2 * PAGE; i < 10 * PAGE; i++) CHECK(start[i] == 0);
  // An odd end: brk is not bound to pages.
  CHECK(brk(start + 12345) == 0 && sbrk(0) == start + 12345);
  start[12344] = 1;
  CHECK(brk(start) == 0);
  void *many[1000];
  uint64_t sum = 0;
  for (int i = 0; i < 1000; i++) {
    many[i] = malloc((size_t)i * 37 % 5000 + 1);
    CHECK(many[i]);
    sum = sum * 31 + (uintptr_t)many[i];
  }
  for (int i = 0; i < 1000; i += 2) free(many[i]);
  char *large = malloc(10 << 20);
  CHECK(large);
  large[9 << 20] = 1;
  large = realloc(large, 30 << 20);
  CHECK(large && large[9 << 20] == 1);
  free(large);
  printf("heap at %p, addresses hash to %lx\n", start, sum);
  return guest_ok();
}
