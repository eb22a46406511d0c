// A thread goes back to a checkpoint that another one has made; one that has begun since may not.
#include "checkpoints.h"

static bis_handle handle;
static volatile int ready, *outside;

static void *goes_back(void *arg) {
  (void)arg;
  while (!ready) usleep(100);
  int n = ++outside[0];
  if (n <= 3) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  return NULL;
}

static void *too_young(void *arg) {
  (void)arg;
  CHECK(bis_rollback(handle, BIS_RETRY) == -EPERM);
  return NULL;
}

int main(void) {
  needs_bis();
  outside = stays();
  pthread_t thread, young;
  CHECK(pthread_create(&thread, NULL, goes_back, NULL) == 0);
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && !ready && outside[0] == times);
  printf("%d\n", times);
  CHECK(pthread_create(&young, NULL, too_young, NULL) == 0 && pthread_join(young, NULL) == 0);
  ready = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(outside[0] == 4 && times == 3);
  return guest_ok();
}
