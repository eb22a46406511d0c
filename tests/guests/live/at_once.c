// Threads of one process make its first checkpoint at the same moment: each gets one of its own.
#include "../checkpoints/checkpoints.h"

enum { THREADS = 4 };
static pthread_barrier_t all;
static bis_handle handles[THREADS];
static int results[THREADS];

static void *asks(void *arg) {
  long i = (long)arg;
  pthread_barrier_wait(&all);
  results[i] = bis_checkpoint(&handles[i]);
  return NULL;
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  CHECK(pthread_barrier_init(&all, NULL, THREADS) == 0);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) threads[i] = start_thread(asks, (void *)i);
  for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
  for (int i = 0; i < THREADS; i++) {
    if (results[i] == -ENOSYS) return guest_ok();
    // EAGAIN: another thread was about to end.
    CHECK(results[i] == 0 || results[i] == -EAGAIN);
    if (results[i] == 0) CHECK(handles[i] != 0 && bis_discard(handles[i]) == 0);
    for (int j = 0; j < i; j++) CHECK(results[i] != 0 || results[j] != 0 || handles[i] != handles[j]);
  }
  return guest_ok();
}
