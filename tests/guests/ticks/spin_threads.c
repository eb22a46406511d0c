// steps:
// Threads that wait for each other in loops that make no call: more of them than cores.
#include "../guest.h"
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 6 };
static atomic_int turn;

static void *wait_for_turns(void *arg) {
  int me = (int)(intptr_t)arg;
  for (int i = 0; i < ROUNDS; i++) {
    while (atomic_load_explicit(&turn, memory_order_acquire) % THREADS != me) {
    }
    atomic_fetch_add(&turn, 1);
  }
  return NULL;
}

int main(void) {
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, wait_for_turns, (void *)(intptr_t)i) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(t[i], NULL) == 0);
  CHECK(turn == THREADS * ROUNDS);
  printf("%d turns\n", turn);
  return guest_ok();
}
