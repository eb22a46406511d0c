// A process is killed by one that does not share its memory, while it computes into memory that others see, or goes
// into its next call just then: its last stores are seen in replay, too, and at the same time.
#include "../guest.h"

#define ROUNDS 12

// Not for ever: on a busy machine it may be long until the other one comes to kill it. In the second half of the rounds
// about as long as that one takes to come, and different each time.
static long some = 30000000;

static long stores_of(int round) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (now.tv_nsec >> 4) % 4000000 * (round / 3 + 1);
}

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
  for (int i = 0; i < 2 * ROUNDS; i++) {
    int round = i % ROUNDS;
    if (i >= ROUNDS) some = stores_of(round);
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
    printf("%d: %lu %lu\n", i, last, counts[1]);
    // Of two threads, one may store late what it has loaded long before.
    CHECK(last > before && (round % 3 == 1 || counts[1] >= last - 2));
    check_exited(killer, 0);
  }
  return guest_ok();
}
