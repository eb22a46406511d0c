// While a thread sleeps in a vfork there is no checkpoint, and none is gone back to; afterwards there is.
#include "checkpoints.h"

static volatile int *sleeps;

static void *spawns(void *arg) {
  (void)arg;
  pid_t child = vfork();
  if (child == 0) {
    *sleeps = 1;
    usleep(300000);
    execl("/bin/true", "true", NULL);
    _exit(127);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return NULL;
}

int main(void) {
  needs_bis();
  sleeps = stays();
  bis_handle early, handle = 0;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, spawns, NULL) == 0);
  while (!*sleeps) usleep(1000);
  CHECK(bis_checkpoint(&handle) == -EAGAIN);
  int result, waits = 0;
  while ((result = bis_checkpoint(&early)) == -EAGAIN) usleep(10000), waits++;
  CHECK(result == 0 && waits > 0);
  CHECK(pthread_join(thread, NULL) == 0);

  *sleeps = 0;
  result = bis_checkpoint(&handle);
  CHECK(result >= 0);
  printf("%d\n", result);
  if (result == 0) {
    CHECK(pthread_create(&thread, NULL, spawns, NULL) == 0);
    while (!*sleeps) usleep(1000);
    CHECK(bis_rollback(handle, BIS_RETRY) == -EBUSY);
    while ((result = bis_rollback(handle, BIS_RETRY)) == -EBUSY) usleep(10000);
    CHECK(result == -1000);
  }
  return guest_ok();
}
