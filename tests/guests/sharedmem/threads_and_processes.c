// Two processes with two threads each, all four under one process-shared barrier and lock.
#include "../guest.h"

struct shared {
  pthread_barrier_t barrier;
  pthread_mutex_t lock;
  long sum, seen[4];
};
static struct shared *s;

static void *body(void *arg) {
  long me = (long)arg;
  for (int i = 0; i < 50; i++) {
    pthread_mutex_lock(&s->lock);
    s->sum += me + 1;
    pthread_mutex_unlock(&s->lock);
  }
  pthread_barrier_wait(&s->barrier);
  s->seen[me] = s->sum;
  pthread_barrier_wait(&s->barrier);
  for (int i = 0; i < 4; i++) CHECK(s->seen[i] == 500);
  return NULL;
}

int main(void) {
  s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_t ba;
  pthread_mutexattr_t ma;
  pthread_barrierattr_init(&ba), pthread_mutexattr_init(&ma);
  pthread_barrierattr_setpshared(&ba, PTHREAD_PROCESS_SHARED), pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
  CHECK(pthread_barrier_init(&s->barrier, &ba, 4) == 0 && pthread_mutex_init(&s->lock, &ma) == 0);
  pid_t p = fork();
  long base = p == 0 ? 2 : 0;
  pthread_t t = start_thread(body, (void *)base);
  body((void *)(base + 1));
  join_thread(t);
  if (p == 0) _exit(0);
  check_exited(p, 0);
  printf("%p in %d and %d\n", s, getpid(), p);
  return guest_ok();
}
