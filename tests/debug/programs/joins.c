// A place to which the program comes from two others, now from one and now from the other.
#include <stdio.h>

static const char *names[] = {"zero", "one", "two"};
int i, thirds, others, both;
const char *name;

__attribute__((noinline)) static void join(void) {
  name = names[i % 3];
  if (i % 3 == 0) {
    thirds++;
    __asm__ volatile("nop; nop");
  } else {
    others++;
  }
  both++; // JOIN
}

int main(void) {
  for (i = 0; i < 40; i++) join();
  printf("%d %d %d\n", thirds, others, both);
  return 0;
}
