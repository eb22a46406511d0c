// A sequence lock: readers look again and again until they have seen a pair of numbers that belong together.
// steps: -DMS=30
#include "../guest.h"
#include <stdatomic.h>

#ifndef MS
#define MS 150
#endif

static atomic_uint sequence;
static atomic_long first, second;
static atomic_int stop;
static long seen[3], retries[3];

static void *read_pairs(void *arg) {
  intptr_t me = (intptr_t)arg;
  while (!atomic_load(&stop)) {
    unsigned before = atomic_load(&sequence);
    long a = atomic_load(&first), b = atomic_load(&second);
    if (before % 2 || atomic_load(&sequence) != before) {
      retries[me]++;
      continue;
    }
    CHECK(b == 3 * a);
    seen[me] += a;
  }
  return NULL;
}

int main(void) {
  pthread_t t[3];
  for (intptr_t i = 0; i < 3; i++) t[i] = start_thread(read_pairs, (void *)i);
  int64_t end = now_ns() + MS * 1000000;
  for (long n = 1; now_ns() < end; n++) {
    for (int i = 0; i < 1000; i++) {
      atomic_fetch_add(&sequence, 1);
      atomic_store(&first, n * 1000 + i);
      atomic_store(&second, 3 * (n * 1000 + i));
      atomic_fetch_add(&sequence, 1);
    }
  }
  stop = 1;
  for (int i = 0; i < 3; i++) {
    join_thread(t[i]);
    printf("reader %d: sum %ld, %ld in vain\n", i, seen[i], retries[i]);
  }
  return guest_ok();
}
