// A bounded queue without locks (each cell has a sequence number that says whose turn it is), with several producers and
// consumers that spin where it is full or empty. Which consumer got which item differs from run to run.
// steps: -DEACH=60
#include "../guest.h"
#include <stdatomic.h>

#ifndef EACH
#define EACH 1000
#endif

enum { CELLS = 64, SIDE = 3 };
static struct {
  atomic_uint turn;
  unsigned value;
} cells[CELLS];
static atomic_uint head, tail;
static atomic_int taken;
static uint64_t sums[SIDE], orders[SIDE];

static bool put(unsigned value) {
  unsigned at = atomic_load_explicit(&tail, memory_order_relaxed);
  for (;;) {
    int distance = (int)(atomic_load(&cells[at % CELLS].turn) - at);
    if (distance < 0) return false;
    if (distance == 0 && atomic_compare_exchange_weak(&tail, &at, at + 1)) break;
    if (distance > 0) at = atomic_load(&tail);
  }
  cells[at % CELLS].value = value;
  atomic_store(&cells[at % CELLS].turn, at + 1);
  return true;
}

static bool take(unsigned *value) {
  unsigned at = atomic_load_explicit(&head, memory_order_relaxed);
  for (;;) {
    int distance = (int)(atomic_load(&cells[at % CELLS].turn) - (at + 1));
    if (distance < 0) return false;
    if (distance == 0 && atomic_compare_exchange_weak(&head, &at, at + 1)) break;
    if (distance > 0) at = atomic_load(&head);
  }
  *value = cells[at % CELLS].value;
  atomic_store(&cells[at % CELLS].turn, at + CELLS);
  return true;
}

static void *produce(void *arg) {
  unsigned me = (unsigned)(uintptr_t)arg;
  for (unsigned i = 0; i < EACH; i++)
    while (!put(me * EACH + i)) {
    }
  return NULL;
}

static void *consume(void *arg) {
  unsigned me = (unsigned)(uintptr_t)arg, value;
  while (atomic_load(&taken) < SIDE * EACH) {
    if (!take(&value)) continue;
    sums[me] += value;
    orders[me] = (orders[me] ^ value) * 1099511628211ull;
    atomic_fetch_add(&taken, 1);
  }
  return NULL;
}

int main(void) {
  for (unsigned i = 0; i < CELLS; i++) cells[i].turn = i;
  pthread_t t[2 * SIDE];
  for (uintptr_t i = 0; i < SIDE; i++) {
    t[i] = start_thread(produce, (void *)i);
    t[SIDE + i] = start_thread(consume, (void *)i);
  }
  for (int i = 0; i < 2 * SIDE; i++) join_thread(t[i]);
  uint64_t sum = 0, n = SIDE * EACH;
  for (int i = 0; i < SIDE; i++) {
    sum += sums[i];
    printf("consumer %d: sum %lu, order %#lx\n", i, sums[i], orders[i]);
  }
  CHECK(sum == n * (n - 1) / 2);
  return guest_ok();
}
