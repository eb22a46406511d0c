// One thread never makes a call while others make many, and reads what they write.
// steps: -DCALLS=6
#include "../guest.h"
#include <stdatomic.h>

#ifndef CALLS
#define CALLS 40
#endif

static atomic_long written, stop;
static long changes, last;

static void *compute(void *arg) {
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    long now = atomic_load_explicit(&written, memory_order_relaxed);
    if (now != last) changes++, last = now;
  }
  return arg;
}

static void *calls(void *arg) {
  int fd[2];
  CHECK(pipe(fd) == 0);
  for (int i = 0; i < CALLS; i++) {
    char c = 1;
    CHECK(write(fd[1], &c, 1) == 1 && read(fd[0], &c, 1) == 1);
    atomic_fetch_add(&written, 1);
    usleep(500);
  }
  return arg;
}

int main(void) {
  pthread_t computes = start_thread(compute, NULL), t[2];
  for (int i = 0; i < 2; i++) t[i] = start_thread(calls, NULL);
  for (int i = 0; i < 2; i++) join_thread(t[i]);
  stop = 1;
  join_thread(computes);
  CHECK(written == 2 * CALLS && changes <= 2 * CALLS);
  printf("%ld changes seen, the last was %ld\n", changes, last);
  return guest_ok();
}
