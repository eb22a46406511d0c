// A bounded buffer between processes with process-shared semaphores and a condition variable.
#include "../guest.h"
#include <semaphore.h>

struct shared {
  sem_t empty, full, mutex;
  int ring[8], in, out;
  pthread_mutex_t lock;
  pthread_cond_t cond;
  int stage;
};

int main(void) {
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(sem_init(&s->empty, 1, 8) == 0 && sem_init(&s->full, 1, 0) == 0 && sem_init(&s->mutex, 1, 1) == 0);
  pthread_mutexattr_t ma;
  pthread_condattr_t ca;
  pthread_mutexattr_init(&ma), pthread_condattr_init(&ca);
  pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED), pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
  CHECK(pthread_mutex_init(&s->lock, &ma) == 0 && pthread_cond_init(&s->cond, &ca) == 0);
  pid_t kids[2];
  for (int k = 0; k < 2; k++) {
    kids[k] = fork();
    if (kids[k] == 0) {
      for (int i = 0; i < 150; i++) {
        CHECK(sem_wait(&s->empty) == 0 && sem_wait(&s->mutex) == 0);
        s->ring[s->in++ % 8] = k * 1000 + i;
        CHECK(sem_post(&s->mutex) == 0 && sem_post(&s->full) == 0);
      }
      pthread_mutex_lock(&s->lock);
      s->stage++;
      pthread_cond_broadcast(&s->cond);
      pthread_mutex_unlock(&s->lock);
      _exit(0);
    }
  }
  int next[2] = {0};
  uint64_t order = 0;
  for (int i = 0; i < 300; i++) {
    CHECK(sem_wait(&s->full) == 0);
    int v = s->ring[s->out++ % 8], k = v / 1000;
    CHECK(v % 1000 == next[k]++);
    order = order * 3 + (uint64_t)k;
    CHECK(sem_post(&s->empty) == 0);
  }
  pthread_mutex_lock(&s->lock);
  while (s->stage < 2) pthread_cond_wait(&s->cond, &s->lock);
  pthread_mutex_unlock(&s->lock);
  check_exited(kids[0], 0), check_exited(kids[1], 0);
  printf("order %lx\n", order);
  return guest_ok();
}
