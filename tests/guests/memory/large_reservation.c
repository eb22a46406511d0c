// A program reserves 64 GB and hardly uses them, as sanitizers, Java and databases do, and two threads wait
// for each other in loops without calls: whoever asks the kernel what these write to may not have it make
// page tables for all that is reserved.
// calm: with chaos, each hand-over waits for a pause
#include "../guest.h"

enum { ROUNDS = 40, PT_MAX = 16 << 10 };

static const size_t RESERVED = 64ul << 30;
static volatile int turn;
static char *memory;

// What the page tables take, KB.
static long page_tables(void) {
  char line[200];
  long kb = -1;
  FILE *status = fopen("/proc/self/status", "r");
  CHECK(status != NULL);
  while (fgets(line, sizeof line, status)) sscanf(line, "VmPTE: %ld kB", &kb);
  fclose(status);
  CHECK(kb > 0);
  return kb;
}

// Each writes where nobody has written, far from all else, while the other one waits.
static void hand_over(int from, int to) {
  for (int i = 0; i < ROUNDS; i++) {
    while (turn != from);
    memory[(2 * i + to + 1) * (RESERVED / (2 * ROUNDS + 4)) & -PAGE] = 1;
    turn = to;
  }
}

static void *other(void *arg) {
  hand_over(1, 0);
  return arg;
}

int main(void) {
  memory = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    puts("this machine does not let a program reserve so much");
    return guest_ok();
  }
  memory[0] = memory[RESERVED - 1] = 1;
  long before = page_tables();
  CHECK(before < PT_MAX);
  pthread_t thread = start_thread(other, NULL);
  hand_over(0, 1);
  join_thread(thread);
  long after = page_tables();
  printf("page tables: %ld KB, then %ld KB\n", before, after);
  CHECK(after < PT_MAX);

  int written = 0;
  for (int i = 1; i < 2 * ROUNDS + 2; i++) written += memory[i * (RESERVED / (2 * ROUNDS + 4)) & -PAGE];
  CHECK(written == 2 * ROUNDS);
  return guest_ok();
}
