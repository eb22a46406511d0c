// Two threads count in a private mapping of a file that their program has written, and in nothing else: where one is
// stopped for the other, only what the mapping holds tells one round from the next.
#include "../guest.h"

#define ROUNDS 20000000ul

static unsigned long *counts;

// Its registers are the same in each round, and none leads to the counts: they lie behind a page that is only read.
static void *counts_up(void *arg) {
  unsigned long **ways = (unsigned long **)(counts + (long)arg * 2 * PAGE / sizeof *counts);
  (void)ways;
  asm volatile(
      "1: mov (%0), %%rax\n"
      "mov (%%rax), %%rax\n"
      "mov (%%rax), %%rax\n"
      "incq 2048(%%rax)\n"
      "cmpq %1, 2048(%%rax)\n"
      "jne 1b\n"
      :
      : "r"(ways), "i"(ROUNDS)
      : "rax", "memory", "cc");
  return NULL;
}

int main(void) {
  int fd = open("counts", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && ftruncate(fd, 16 * PAGE) == 0);
  CHECK(pwrite(fd, "data", 4, 15 * PAGE) == 4);
  counts = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  CHECK(counts != MAP_FAILED);
  for (int i = 0; i < 2; i++) {
    unsigned long *first = counts + (long)i * 2 * PAGE / sizeof *counts;
    unsigned long *second = counts + (4 + 2 * i) * PAGE / sizeof *counts, *third = counts + (8 + 2 * i) * PAGE / sizeof *counts;
    *(unsigned long **)first = second;
    *(unsigned long **)second = third;
    *(unsigned long **)third = counts + (12 + i) * PAGE / sizeof *counts;
  }
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) threads[i] = start_thread(counts_up, (void *)i);
  // What a thread is seen to have done when another one is stopped.
  volatile unsigned long *seen = counts + 12 * PAGE / sizeof *counts + 256;
  for (int i = 0; i < 20; i++) {
    printf("%lu %lu\n", seen[0], seen[PAGE / sizeof *seen]);
    usleep(1000);
  }
  for (int i = 0; i < 2; i++) join_thread(threads[i]);
  CHECK(seen[0] == ROUNDS && seen[PAGE / sizeof *seen] == ROUNDS);
  return guest_ok();
}
