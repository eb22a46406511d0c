// The main thread gives another ten milliseconds for what takes some microseconds, and believes that it is done.
#include "rare.h"

static volatile uint64_t result;

static void *worker(void *arg) {
  (void)arg;
  result = work(1000);
  return NULL;
}

int main(void) {
  pthread_t thread = begin(worker, NULL);
  sleep_us(10000);
  uint64_t seen = result;
  end(thread);
  if (seen == 0) WRONG("no result after 10 ms");
  return right("the result was there in time");
}
