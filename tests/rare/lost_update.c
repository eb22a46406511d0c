// Two threads count what they have served in one variable, without a lock. Each serves its few requests in about a
// microsecond, right after it was started, so the other has hardly ever begun when it is done.
#include "rare.h"

#define EACH 20

static volatile long served;

__attribute__((noinline)) static void serve(unsigned request) {
  if (work(20 + request % 4) == 0) return;
  served++;
}

static void *worker(void *arg) {
  for (unsigned i = 0; i < EACH; i++) serve(i + (unsigned)(uintptr_t)arg);
  return NULL;
}

int main(void) {
  pthread_t first = begin(worker, (void *)1);
  work(100000);
  pthread_t second = begin(worker, (void *)2);
  end(first);
  end(second);
  if (served != 2 * EACH) WRONG("%ld requests counted, %d served", served, 2 * EACH);
  return right("every request was counted");
}
