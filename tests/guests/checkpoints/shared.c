// Shared memory is not the process's alone: it stays as it is; what was mapped since is unmapped; and where it was unmapped
// since, the process cannot go back, and is told so and goes on.
#include "checkpoints.h"

static volatile int *map(void) {
  volatile int *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

int main(void) {
  needs_bis();
  volatile int *kept = map(), *lost = map();
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && *kept == times);
  printf("%d\n", times);
  ++*kept;
  static volatile int *newer;
  CHECK(newer == NULL);
  newer = map();
  *newer = 5;
  if (times < 2) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  CHECK(munmap((void *)lost, 4096) == 0);
  CHECK(bis_rollback(handle, BIS_RETRY) == -EOPNOTSUPP);
  CHECK(*newer == 5 && *kept == 3 && bis_discard(handle) == 0);
  return guest_ok();
}
