// Adds up, and gives its memory back. Of that call replay is told a lie (crates/bis/tests/diverged.rs).
#include <stdio.h>
#include <sys/mman.h>

#define LEN (7 * 4096)

static int total;

static __attribute__((noinline)) void add(int n) { total += n; }

static __attribute__((noinline)) void give_back(void *memory) {
  munmap(memory, LEN);
  total = -1;
}

int main(void) {
  void *memory = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int n = 1; n <= 5; n++) add(n);
  give_back(memory);
  puts("given back");
  return 0;
}
