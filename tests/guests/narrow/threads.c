// cflags: -m32
// needs: /usr/lib32/crt1.o
// Threads with variables of their own, a mutex, a condition, a barrier, and waits that end by time.
#include "../guest.h"

#define THREADS 4
#define ROUNDS 2000

static __thread int own = 5;
static __thread char text[16];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t grown = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int total;

static void *body(void *arg) {
  int number = (int)(intptr_t)arg;
  CHECK(own == 5 && text[0] == 0);
  own = number;
  snprintf(text, sizeof text, "thread %d", number);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < ROUNDS; i++) {
    pthread_mutex_lock(&mutex);
    total++;
    pthread_cond_signal(&grown);
    pthread_mutex_unlock(&mutex);
    if (i % 100 == 0) sched_yield();
  }
  char expected[16];
  snprintf(expected, sizeof expected, "thread %d", number);
  CHECK(own == number && strcmp(text, expected) == 0);
  return (void *)(intptr_t)(number * 10);
}

int main(void) {
  pthread_t threads[THREADS];
  CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; i++) threads[i] = start_thread(body, (void *)(intptr_t)i);
  pthread_mutex_lock(&mutex);
  while (total < THREADS * ROUNDS) pthread_cond_wait(&grown, &mutex);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < THREADS; i++) CHECK((intptr_t)join_thread(threads[i]) == i * 10);
  CHECK(own == 5);
  struct timespec until;
  CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
  until.tv_nsec += 20000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_timedwait(&grown, &mutex, &until) == ETIMEDOUT);
  pthread_mutex_unlock(&mutex);
  uint32_t word = 1;
  struct timespec brief = {0, 1000000};
  CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 1, &brief, NULL, 0), ETIMEDOUT);
  CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 2, &brief, NULL, 0), EAGAIN);
  printf("total %d\n", total);
  return guest_ok();
}
