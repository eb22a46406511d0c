// Four threads count under a mutex, a spin with sched_yield, and atomics: nothing is lost.
#include "../guest.h"
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long guarded;
static atomic_long loose;
static atomic_flag flag = ATOMIC_FLAG_INIT;
static long spun;

static void *body(void *arg) {
  (void)arg;
  for (int i = 0; i < 2000; i++) {
    pthread_mutex_lock(&lock);
    long seen = guarded;
    if (i % 500 == 0) sched_yield();
    guarded = seen + 1;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&loose, 1);
    if (i % 10 == 0) {
      while (atomic_flag_test_and_set(&flag)) sched_yield();
      long s = spun;
      sched_yield();
      spun = s + 1;
      atomic_flag_clear(&flag);
    }
  }
  return NULL;
}

int main(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) t[i] = start_thread(body, NULL);
  for (int i = 0; i < 4; i++) join_thread(t[i]);
  CHECK(guarded == 8000 && loose == 8000 && spun == 800);
  printf("%d\n", getpid());
  return guest_ok();
}
