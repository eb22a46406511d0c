// A process that shares the memory and has begun since the checkpoint is not ended by a way back: there is none while it lives.
#define _GNU_SOURCE
#include "checkpoints.h"
#include <sched.h>

static volatile int begun, may_end;
static char stack[64 << 10] __attribute__((aligned(16)));

static int waits(void *arg) {
  (void)arg;
  begun = 1;
  while (!may_end) usleep(1000);
  return 7;
}

int main(void) {
  needs_bis();
  bis_handle handle;
  int result = bis_checkpoint(&handle);
  CHECK(result >= 0);
  printf("%d\n", result);
  if (result == 0) {
    pid_t child = clone(waits, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    CHECK(child > 0);
    while (!begun) usleep(1000);
    CHECK(bis_rollback(handle, BIS_RETRY) == -EBUSY);
    may_end = 1;
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  }
  CHECK(!begun);
  return guest_ok();
}
