// Several threads sleep for different times at once and wake in order of their times.
#include "../guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t woke[6];

static void *body(void *arg) {
  long i = (long)arg;
  sleep_ms((int)(6 - i) * 5);
  pthread_mutex_lock(&lock);
  woke[i] = now_ns();
  pthread_mutex_unlock(&lock);
  return NULL;
}

int main(void) {
  int64_t began = now_ns();
  pthread_t t[6];
  for (long i = 0; i < 6; i++) t[i] = start_thread(body, (void *)i);
  for (int i = 0; i < 6; i++) join_thread(t[i]);
  for (int i = 0; i < 6; i++) CHECK(woke[i] - began >= (6 - i) * 5000000ll);
  // Six sleeps at once take as long as the longest, far from their sum.
  printf("all awake after %ld us\n", (long)(now_ns() - began) / 1000);
  CHECK(pthread_mutex_timedlock(&lock, &(struct timespec){1, 0}) == 0);
  CHECK(pthread_mutex_timedlock(&lock, &(struct timespec){1, 0}) == ETIMEDOUT);
  return guest_ok();
}
