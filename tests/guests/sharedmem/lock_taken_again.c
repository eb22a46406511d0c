// As threads/lock_taken_again, but the lock is in memory that processes share: one takes it again and again,
// and makes all its calls while it holds it.
#include "../guest.h"
#include <stdatomic.h>

enum { WAITERS = 2, TIMES = 5, ROUNDS_MAX = 100000000 };

static struct shared {
  pthread_mutex_t mutex;
  atomic_flag flag;
  int done;
} *shared;

static void take_mutex(void) { pthread_mutex_lock(&shared->mutex); }

static void give_mutex(void) { pthread_mutex_unlock(&shared->mutex); }

static void take_yielding(void) {
  while (atomic_flag_test_and_set(&shared->flag)) sched_yield();
}

static void take_sleeping(void) {
  while (atomic_flag_test_and_set(&shared->flag)) usleep(100);
}

static void take_spinning(void) {
  while (atomic_flag_test_and_set(&shared->flag)) __builtin_ia32_pause();
}

static void give_flag(void) { atomic_flag_clear(&shared->flag); }

static const struct way {
  const char *name;
  void (*take)(void), (*give)(void);
} ways[] = {
    {"mutex", take_mutex, give_mutex},
    {"sched_yield", take_yielding, give_flag},
    {"usleep", take_sleeping, give_flag},
    {"pause", take_spinning, give_flag},
};

int main(void) {
  shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  pthread_mutexattr_t attr;
  CHECK(pthread_mutexattr_init(&attr) == 0);
  CHECK(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_mutex_init(&shared->mutex, &attr) == 0);
  for (const struct way *way = ways; way < ways + sizeof(ways) / sizeof(*ways); way++) {
    pid_t waiters[WAITERS];
    shared->done = 0;
    for (int i = 0; i < WAITERS; i++) {
      waiters[i] = fork();
      if (waiters[i] != 0) continue;
      for (int time = 0; time < TIMES; time++) {
        way->take();
        shared->done++;
        way->give();
      }
      _exit(0);
    }
    long rounds = 0;
    for (bool is_done = false; !is_done; rounds++) {
      way->take();
      now_ns();
      is_done = shared->done == WAITERS * TIMES;
      way->give();
      CHECK(rounds < ROUNDS_MAX);
    }
    for (int i = 0; i < WAITERS; i++) check_exited(waiters[i], 0);
    printf("%s: %ld rounds\n", way->name, rounds);
  }
  return guest_ok();
}
