// A process is killed by one that does not share its memory, while it computes into memory that others see, or goes
// into its next call just then: its last stores are seen in replay, too, and at the same time.
#include <time.h>

#include "../guest.h"

// How long it computes is different each time, about as long as the one that kills it takes to come.
static long stores_of(int round) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (now.tv_nsec >> 4) % 4000000 * (round / 3 + 1);
}

static long some;

static void *stores(void *arg) {
  volatile unsigned long *counts = arg;
  for (long i = 0; i <= some; i++) counts[1] = counts[0]++;
  for (;;) pause();
  return NULL;
}

static void kills(pid_t victim, volatile unsigned long *counts, int round) {
  // It has no turns of the memory to wait for.
  CHECK(munmap((void *)counts, PAGE) == 0);
  usleep(500 * (round / 3));
  CHECK(kill(victim, round % 2 ? SIGKILL : SIGTERM) == 0);
  _exit(0);
}

int main(void) {
  volatile unsigned long *counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < 12; round++) {
    some = stores_of(round);
    unsigned long before = counts[0];
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      if (round % 3 == 1) start_thread(stores, (void *)counts);
      stores((void *)counts);
    }
    while (counts[0] == before) sched_yield();
    pid_t killer = fork();
    CHECK(killer >= 0);
    if (killer == 0) kills(child, counts, round);
    check_killed(child, round % 2 ? SIGKILL : SIGTERM);
    unsigned long last = counts[0];
    CHECK(last > before && counts[1] >= last - 2);
    printf("%d: %lu %lu\n", round, last, counts[1]);
    check_exited(killer, 0);
  }
  return guest_ok();
}
