// A lock that is waited for in four ways: asleep in the kernel, giving each turn away, asleep for a while, spinning.
#ifndef WAYS_TO_WAIT_H
#define WAYS_TO_WAIT_H
#include "guest.h"
#include <stdatomic.h>

struct lock {
  pthread_mutex_t mutex;
  atomic_flag flag;
  // How often it was taken by those who wait for it.
  int done;
};

static void take_mutex(struct lock *lock) { pthread_mutex_lock(&lock->mutex); }

static void give_mutex(struct lock *lock) { pthread_mutex_unlock(&lock->mutex); }

static void take_yielding(struct lock *lock) {
  while (atomic_flag_test_and_set(&lock->flag)) sched_yield();
}

static void take_sleeping(struct lock *lock) {
  while (atomic_flag_test_and_set(&lock->flag)) usleep(100);
}

static void take_spinning(struct lock *lock) {
  while (atomic_flag_test_and_set(&lock->flag)) __builtin_ia32_pause();
}

static void give_flag(struct lock *lock) { atomic_flag_clear(&lock->flag); }

static const struct way {
  const char *name;
  void (*take)(struct lock *), (*give)(struct lock *);
} ways[] = {
    {"mutex", take_mutex, give_mutex},
    {"sched_yield", take_yielding, give_flag},
    {"usleep", take_sleeping, give_flag},
    {"pause", take_spinning, give_flag},
};

enum { WAYS = sizeof(ways) / sizeof(*ways), TIMES = 5, ROUNDS_MAX = 100000000 };

// Takes the lock a few times.
static void take_times(const struct way *way, struct lock *lock) {
  for (int i = 0; i < TIMES; i++) {
    way->take(lock);
    lock->done++;
    way->give(lock);
  }
}

// Takes the lock again and again, and makes a call each time while it has it, until others have taken it this often.
static void take_until(const struct way *way, struct lock *lock, int done) {
  long rounds = 0;
  for (bool is_done = false; !is_done; rounds++) {
    way->take(lock);
    now_ns();
    is_done = lock->done == done;
    way->give(lock);
    CHECK(rounds < ROUNDS_MAX);
  }
  printf("%s: %ld rounds\n", way->name, rounds);
}
#endif
