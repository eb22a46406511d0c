// Two threads that hand a word to each other, and compute until it is theirs. First they work meanwhile, which nobody
// could tell from a long computation; then they only look, one of them at four places by turns, the other for a number of rounds
// at a time. Prints how much of the processor a handoff took in both, in microseconds: a busy machine does not change that.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { WORKED = 20, SPUN = 500, ROUNDS = 1000000 };

static atomic_int turn;
static volatile uint64_t made[2];

static uint64_t micros(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

__attribute__((noinline)) static void work(int me) {
  while (atomic_load_explicit(&turn, memory_order_acquire) % 2 != me) made[me] = made[me] * 3 + 1;
}

#define LOOK(N) \
  __attribute__((noinline)) static void look##N(void) { \
    while (atomic_load_explicit(&turn, memory_order_acquire) % 2 != 0) __asm__ volatile("# " #N); \
  }
LOOK(0)
LOOK(1)
LOOK(2)
LOOK(3)
static void (*const looks[])(void) = {look0, look1, look2, look3};

__attribute__((noinline)) static void spin(int me) {
  static int round;
  if (me == 0) looks[round++ % 4]();
  while (me == 1) {
    for (int i = 0; i < ROUNDS; i++) {
      if (atomic_load_explicit(&turn, memory_order_relaxed) % 2 != 0) return;
    }
  }
}

static void hand(int me, void (*wait)(int), int times) {
  for (int i = 0; i < times; i++) {
    wait(me);
    atomic_fetch_add(&turn, 1);
  }
}

static void *other(void *arg) {
  (void)arg;
  hand(1, work, WORKED);
  hand(1, spin, SPUN);
  return NULL;
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, other, NULL) != 0) return 1;
  uint64_t begin = micros();
  hand(0, work, WORKED);
  uint64_t between = micros();
  hand(0, spin, SPUN);
  uint64_t end = micros();
  pthread_join(thread, NULL);
  printf("work %lu spin %lu\n", (between - begin) / WORKED, (end - between) / SPUN);
  return 0;
}
