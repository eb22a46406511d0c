// The second thread uses what the first prepares as it begins. The first is started a millisecond earlier.
#include "rare.h"

static int *shared_buffer;
static int was_missing;

static void *first(void *arg) {
  shared_buffer = arg;
  return NULL;
}

static void *second(void *arg) {
  (void)arg;
  if (shared_buffer == NULL) was_missing = 1;
  return NULL;
}

int main(void) {
  static int buffer[16];
  pthread_t one = begin(first, buffer);
  work(1000000);
  pthread_t two = begin(second, NULL);
  end(one);
  end(two);
  if (was_missing) WRONG("the second thread began before the first");
  return right("the first thread began first");
}
