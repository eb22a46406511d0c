// Threads, and processes that share memory, that wait for each other by sched_yield alone; and threads that yield while they
// hold what others want. Each gets its turn, though not at each of these calls.
#include "../guest.h"
#include <stdatomic.h>

enum { ROUNDS = 300, THREADS = 3 };

struct shared {
  atomic_int turn;
  atomic_long yields;
  unsigned long sum;
};

static struct shared *shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// Waits for its turn, adds its number, and passes the turn on.
static void pass(int self) {
  long yields = 0;
  for (int i = 0; i < ROUNDS; i++) {
    for (; atomic_load(&shared->turn) != self; yields++) CHECK(sched_yield() == 0);
    shared->sum = shared->sum * 3 + (unsigned)self;
    atomic_store(&shared->turn, (self + 1) % THREADS);
  }
  atomic_fetch_add(&shared->yields, yields);
}

static void *pass_in_thread(void *self) {
  pass((int)(long)self);
  return NULL;
}

static void *lock_and_yield(void *arg) {
  for (int i = 0; i < 1000; i++) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    shared->sum += (unsigned)i;
    CHECK(sched_yield() == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
  }
  return arg;
}

int main(void) {
  shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = start_thread(pass_in_thread, (void *)(long)i);
  for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
  printf("threads: %lu, %ld yields\n", shared->sum, atomic_load(&shared->yields));
  for (int i = 0; i < THREADS; i++) threads[i] = start_thread(lock_and_yield, NULL);
  for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
  printf("locked: %lu\n", shared->sum);
  pid_t children[THREADS];
  for (int i = 0; i < THREADS; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      pass(i);
      _exit(0);
    }
  }
  for (int i = 0; i < THREADS; i++) check_exited(children[i], 0);
  printf("processes: %lu, %ld yields\n", shared->sum, atomic_load(&shared->yields));
  return guest_ok();
}
