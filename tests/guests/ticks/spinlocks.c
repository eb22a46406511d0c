// Locks that never ask the kernel, with more threads than cores: test-and-set with and without pause, tickets, and one that
// yields.
// steps: -DROUNDS=10 -DHOLD=500
#include "../guest.h"
#include <stdatomic.h>

#ifndef ROUNDS
#define ROUNDS 100
#endif

#ifndef HOLD
#define HOLD 20000
#endif

enum { THREADS = 4 };
static atomic_int plain, polite, yielding, next_ticket, serving;
// Each guarded by one of the locks.
static long by_plain, by_polite, by_yielding, by_ticket;

static void *work(void *arg) {
  for (int i = 0; i < ROUNDS; i++) {
    while (atomic_exchange(&plain, 1)) {
    }
    by_plain++;
    atomic_store(&plain, 0);
    while (atomic_exchange(&polite, 1))
      while (atomic_load_explicit(&polite, memory_order_relaxed)) __builtin_ia32_pause();
    by_polite++;
    atomic_store(&polite, 0);
    int mine = atomic_fetch_add(&next_ticket, 1);
    while (atomic_load(&serving) != mine) {
    }
    by_ticket++;
    atomic_store(&serving, mine + 1);
    if (i % 10) continue;
    while (atomic_exchange(&yielding, 1)) sched_yield();
    // Held for a while, so that the others meet it locked.
    for (volatile int n = 0; n < HOLD; n++) {
    }
    by_yielding++;
    atomic_store(&yielding, 0);
  }
  return arg;
}

int main(void) {
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++) t[i] = start_thread(work, NULL);
  for (int i = 0; i < THREADS; i++) join_thread(t[i]);
  CHECK(by_plain == THREADS * ROUNDS && by_polite == by_plain && by_ticket == by_plain);
  CHECK(by_yielding == THREADS * ROUNDS / 10);
  return guest_ok();
}
