// cflags: -m32 -O1 -pthread
// needs: /usr/lib32/crt1.o
// Threads of a 32-bit program that compute and make no calls take turns, and a timer finds one in the middle of a loop: replay
// finds the same places again by what registers and memory held.
#include "../guest.h"
#include <pthread.h>
#include <sys/time.h>

static volatile unsigned sum, ticks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *compute(void *seed) {
  unsigned x = (unsigned)seed;
  for (unsigned i = 0; i < 20000000; i++) {
    x = x * 1664525 + 1013904223;
    if ((x & 0xfffff) == 0) {
      pthread_mutex_lock(&lock);
      sum = sum * 31 + x;
      pthread_mutex_unlock(&lock);
    }
  }
  return (void *)x;
}

static void on_tick(int signal) {
  (void)signal;
  ticks++;
}

int main(void) {
  pthread_t threads[3];
  for (unsigned i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, compute, (void *)(i + 1)) == 0);
  for (int i = 0; i < 3; i++) {
    void *last;
    CHECK(pthread_join(threads[i], &last) == 0);
    printf("thread %d ended with %08x\n", i, (unsigned)last);
  }
  printf("together %08x\n", sum);

  signal(SIGALRM, on_tick);
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  double root = 1;
  unsigned long long turns = 0;
  while (ticks < 5) {
    root = root * 0.5 + 1 / root;
    turns++;
  }
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  CHECK(root > 1.414 && root < 1.415);
  printf("after %llu turns: %.6f\n", turns, root);
  return guest_ok();
}
