// Producer and consumers over a bounded queue with two condition variables: every item arrives once.
#include "../guest.h"

#define ITEMS 600
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;
static int queue[8], head, count, done, taken[ITEMS], by[3];

static void *producer(void *arg) {
  long first = (long)arg;
  for (int i = (int)first; i < ITEMS; i += 2) {
    pthread_mutex_lock(&lock);
    while (count == 8) pthread_cond_wait(&drained, &lock);
    queue[(head + count++) % 8] = i;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void *consumer(void *arg) {
  long me = (long)arg;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (count == 0 && !done) pthread_cond_wait(&filled, &lock);
    if (count == 0) break;
    taken[queue[head]]++;
    by[me]++;
    head = (head + 1) % 8;
    count--;
    pthread_cond_signal(&drained);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

int main(void) {
  pthread_t p[2], c[3];
  for (long i = 0; i < 3; i++) c[i] = start_thread(consumer, (void *)i);
  for (long i = 0; i < 2; i++) p[i] = start_thread(producer, (void *)i);
  for (int i = 0; i < 2; i++) join_thread(p[i]);
  pthread_mutex_lock(&lock);
  done = 1;
  pthread_cond_broadcast(&filled);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < 3; i++) join_thread(c[i]);
  for (int i = 0; i < ITEMS; i++) CHECK(taken[i] == 1);
  struct timespec soon;
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_nsec += 20000000;
  if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
  pthread_mutex_lock(&lock);
  CHECK(pthread_cond_timedwait(&filled, &lock, &soon) == ETIMEDOUT);
  pthread_mutex_unlock(&lock);
  printf("shares %d %d %d\n", by[0], by[1], by[2]);
  return guest_ok();
}
