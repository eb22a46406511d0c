// A thread takes a lock again and again, and makes all its calls while it holds it: where turns end at calls,
// nobody else would ever get the lock. (QEMU's main loop waits so for the thread that emulates a processor.)
#include "../ways_to_wait.h"

enum { WAITERS = 2 };

static struct lock lock = {PTHREAD_MUTEX_INITIALIZER, ATOMIC_FLAG_INIT, 0};

static void *waits(void *way) {
  take_times(way, &lock);
  return NULL;
}

int main(void) {
  for (int way = 0; way < WAYS; way++) {
    pthread_t threads[WAITERS];
    lock.done = 0;
    for (int i = 0; i < WAITERS; i++) threads[i] = start_thread(waits, (void *)&ways[way]);
    take_until(&ways[way], &lock, WAITERS * TIMES);
    for (int i = 0; i < WAITERS; i++) join_thread(threads[i]);
  }
  return guest_ok();
}
