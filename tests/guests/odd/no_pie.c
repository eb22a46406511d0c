// cflags: -no-pie -fno-pie
// A program at fixed addresses.
#include "../guest.h"

int main(void) {
  CHECK((uintptr_t)main >= 0x400000 && (uintptr_t)main < 0x800000);
  char *here = mmap((void *)0x10000000, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(here == (char *)0x10000000);
  here[0] = 1;
  printf("%p, heap at %p\n", (void *)main, sbrk(0));
  return guest_ok();
}
