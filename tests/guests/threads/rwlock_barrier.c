// Reader-writer locks, barriers, semaphores, once: the promises of each.
#include "../guest.h"
#include <semaphore.h>

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t sem;
static int a, b, onces, serial, order[5], next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void init(void) { onces++; }

static void *body(void *arg) {
  long me = (long)arg;
  pthread_once(&once, init);
  for (int i = 0; i < 100; i++) {
    if ((i + me) % 5 == 0) {
      pthread_rwlock_wrlock(&rw);
      a++;
      sched_yield();
      b++;
      pthread_rwlock_unlock(&rw);
    } else {
      pthread_rwlock_rdlock(&rw);
      CHECK(a == b);
      pthread_rwlock_unlock(&rw);
    }
  }
  if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) __atomic_add_fetch(&serial, 1, __ATOMIC_SEQ_CST);
  CHECK(a == 100 && b == 100);
  CHECK(sem_wait(&sem) == 0);
  pthread_mutex_lock(&lock);
  order[next++] = (int)me;
  pthread_mutex_unlock(&lock);
  CHECK(sem_post(&sem) == 0);
  return NULL;
}

int main(void) {
  CHECK(pthread_barrier_init(&barrier, NULL, 5) == 0 && sem_init(&sem, 0, 1) == 0);
  pthread_t t[5];
  for (long i = 0; i < 5; i++) t[i] = start_thread(body, (void *)i);
  for (int i = 0; i < 5; i++) join_thread(t[i]);
  CHECK(onces == 1 && serial == 1 && next == 5);
  int value;
  CHECK(sem_getvalue(&sem, &value) == 0 && value == 1 && sem_trywait(&sem) == 0);
  CHECK_ERRNO(sem_trywait(&sem), EAGAIN);
  printf("order %d %d %d %d %d\n", order[0], order[1], order[2], order[3], order[4]);
  return guest_ok();
}
