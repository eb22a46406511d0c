// pthread's spin locks and barriers, condition variables and computing threads together, some of them nicer than others.
#include "../guest.h"
#include <sys/resource.h>

enum { THREADS = 5, ROUNDS = 20 };
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long by_spin, by_mutex, serials, turn;

static void *work(void *arg) {
  intptr_t me = (intptr_t)arg;
  if (me == 1) CHECK(setpriority(PRIO_PROCESS, (id_t)tid_self(), 10) == 0);
  if (me == 2) {
    struct sched_param param = {0};
    CHECK(pthread_setschedparam(pthread_self(), SCHED_BATCH, &param) == 0);
  }
  for (int i = 0; i < ROUNDS; i++) {
    for (volatile int n = 0; n < 3000 * (me + 1); n++) {
    }
    CHECK(pthread_spin_lock(&spin) == 0);
    by_spin++;
    for (volatile int n = 0; n < 1000; n++) {
    }
    CHECK(pthread_spin_unlock(&spin) == 0);
    int r = pthread_barrier_wait(&barrier);
    CHECK(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    if (r) serials++;
    while (turn % THREADS != me) CHECK(pthread_cond_wait(&cond, &mutex) == 0);
    turn++, by_mutex++;
    CHECK(pthread_cond_broadcast(&cond) == 0 && pthread_mutex_unlock(&mutex) == 0);
  }
  return NULL;
}

int main(void) {
  CHECK(pthread_spin_init(&spin, 0) == 0 && pthread_barrier_init(&barrier, NULL, THREADS) == 0);
  pthread_t t[THREADS];
  for (intptr_t i = 0; i < THREADS; i++) t[i] = start_thread(work, (void *)i);
  for (int i = 0; i < THREADS; i++) join_thread(t[i]);
  CHECK(by_spin == THREADS * ROUNDS && by_mutex == by_spin && serials == ROUNDS);
  return guest_ok();
}
