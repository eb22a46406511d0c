// The main thread waits on a condition that another signals when it is done, without looking whether it is done already.
// It waits a few microseconds after it has started the thread; the thread works for some milliseconds.
#include "rare.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static int is_done;

static void *worker(void *arg) {
  (void)arg;
  work(8000000);
  pthread_mutex_lock(&mutex);
  is_done = 1;
  pthread_cond_signal(&finished);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

int main(void) {
  pthread_t thread = begin(worker, NULL);
  pthread_mutex_lock(&mutex);
  // The time limit is not the program's, which would wait for ever: it is there to say so. The thread signals under the
  // mutex, so who is not woken, and sees that it is done, has come too late.
  for (;;) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += 50000000;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&finished, &mutex, &limit) == 0) break;
    if (is_done) WRONG("waiting for a signal that was sent before");
  }
  pthread_mutex_unlock(&mutex);
  end(thread);
  return right("the signal has come");
}
