// Four threads that compute and share their results under locks: one lock for each of 16 shelves, now and then a
// condition variable on which all meet. What comes out does not depend on who came first.
// usage: cpu_threads ROUNDS      prints one line, the same in every run
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, SHELVES = 16, MEETING_EVERY = 1000 };

static struct { pthread_mutex_t lock; uint64_t sum; } shelves[SHELVES];
static pthread_mutex_t meeting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t everybody = PTHREAD_COND_INITIALIZER;
static int waiting, meetings, rounds;

static void meet(void) {
  pthread_mutex_lock(&meeting);
  int this_one = meetings;
  if (++waiting == THREADS) {
    waiting = 0;
    meetings++;
    pthread_cond_broadcast(&everybody);
  }
  while (meetings == this_one) pthread_cond_wait(&everybody, &meeting);
  pthread_mutex_unlock(&meeting);
}

static void *work(void *number) {
  uint64_t value = (uint64_t)(uintptr_t)number * 7919 + 1;
  for (int round = 1; round <= rounds; round++) {
    for (int i = 0; i < 1500; i++) value = value * 6364136223846793005ull + 1442695040888963407ull;
    unsigned shelf = value >> 60;
    pthread_mutex_lock(&shelves[shelf].lock);
    for (int i = 0; i < 20; i++) shelves[shelf].sum += value >> i;
    pthread_mutex_unlock(&shelves[shelf].lock);
    if (round % MEETING_EVERY == 0) meet();
  }
  return NULL;
}

int main(int argc, char **argv) {
  rounds = argc > 1 ? atoi(argv[1]) : 1000;
  for (int i = 0; i < SHELVES; i++) pthread_mutex_init(&shelves[i].lock, NULL);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) return perror("pthread_create"), 1;
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  uint64_t all = 0;
  for (int i = 0; i < SHELVES; i++) all = all * 31 + shelves[i].sum;
  printf("%d meetings, %016llx\n", meetings, (unsigned long long)all);
  return 0;
}
