// A thread takes a lock again and again, and makes all its calls while it holds it: where turns end at calls,
// nobody else would ever get the lock. (QEMU's main loop waits so for the thread that emulates a processor.)
// Who waits sleeps in the kernel, gives its turn away, sleeps for a while, or spins.
#include "../guest.h"
#include <stdatomic.h>

enum { WAITERS = 2, TIMES = 5, ROUNDS_MAX = 100000000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_flag flag = ATOMIC_FLAG_INIT;
static int done;

static void take_mutex(void) { pthread_mutex_lock(&mutex); }

static void give_mutex(void) { pthread_mutex_unlock(&mutex); }

static void take_yielding(void) {
  while (atomic_flag_test_and_set(&flag)) sched_yield();
}

static void take_sleeping(void) {
  while (atomic_flag_test_and_set(&flag)) usleep(100);
}

static void take_spinning(void) {
  while (atomic_flag_test_and_set(&flag)) __builtin_ia32_pause();
}

static void give_flag(void) { atomic_flag_clear(&flag); }

static const struct way {
  const char *name;
  void (*take)(void), (*give)(void);
} ways[] = {
    {"mutex", take_mutex, give_mutex},
    {"sched_yield", take_yielding, give_flag},
    {"usleep", take_sleeping, give_flag},
    {"pause", take_spinning, give_flag},
};

static void *waits(void *arg) {
  const struct way *way = arg;
  for (int i = 0; i < TIMES; i++) {
    way->take();
    done++;
    way->give();
  }
  return NULL;
}

int main(void) {
  for (const struct way *way = ways; way < ways + sizeof(ways) / sizeof(*ways); way++) {
    pthread_t threads[WAITERS];
    done = 0;
    for (int i = 0; i < WAITERS; i++) threads[i] = start_thread(waits, (void *)way);
    long rounds = 0;
    for (bool is_done = false; !is_done; rounds++) {
      way->take();
      now_ns();
      is_done = done == WAITERS * TIMES;
      way->give();
      CHECK(rounds < ROUNDS_MAX);
    }
    for (int i = 0; i < WAITERS; i++) join_thread(threads[i]);
    printf("%s: %ld rounds\n", way->name, rounds);
  }
  return guest_ok();
}
