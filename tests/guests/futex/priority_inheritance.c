// Priority-inheriting mutexes (FUTEX_LOCK_PI): the owner's tid in the word, contention, timeouts, errors.
#include "../guest.h"

static pthread_mutex_t m;
static int in, go[2];

static void *body(void *arg) {
  (void)arg;
  for (int i = 0; i < 200; i++) {
    CHECK(pthread_mutex_lock(&m) == 0);
    CHECK(in++ == 0);
    if (i % 20 == 0) sched_yield();
    in--;
    CHECK(pthread_mutex_unlock(&m) == 0);
  }
  return NULL;
}

static void *holds(void *arg) {
  uint32_t *word = arg;
  char c;
  CHECK(futex(word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0) == 0);
  CHECK((*word & FUTEX_TID_MASK) == (uint32_t)tid_self());
  CHECK(write(go[1], "l", 1) == 1);
  while ((__atomic_load_n(word, __ATOMIC_SEQ_CST) & FUTEX_WAITERS) == 0) usleep(500);
  (void)c;
  CHECK(futex(word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0) == 0);
  return NULL;
}

int main(void) {
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  CHECK(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0 && pthread_mutex_init(&m, &attr) == 0);
  pthread_t t[3];
  for (int i = 0; i < 3; i++) t[i] = start_thread(body, NULL);
  for (int i = 0; i < 3; i++) join_thread(t[i]);
  static uint32_t word;
  char c;
  CHECK(pipe(go) == 0);
  pthread_t h = start_thread(holds, &word);
  CHECK(read(go[0], &c, 1) == 1);
  CHECK_ERRNO(futex(&word, FUTEX_TRYLOCK_PI_PRIVATE, 0, NULL, NULL, 0), EAGAIN);
  CHECK(futex(&word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0) == 0);
  uint32_t seen = word;
  CHECK((seen & FUTEX_TID_MASK) == (uint32_t)getpid());
  CHECK_ERRNO(futex(&word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0), EDEADLK);
  CHECK(futex(&word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0) == 0 && word == 0);
  join_thread(h);
  printf("word was %x\n", seen);
  return guest_ok();
}
