// Shared memory that another process maps, too, is not this one's alone: it stays as it is, and so does a file's that is mapped
// shared. Whether that is so is a question of the moment of the way back, too.
#include "checkpoints.h"
#include <sys/wait.h>

static volatile int *map(void) {
  volatile int *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

// A child that has all that is mapped shared now, until the other end of the pipe is closed.
static pid_t holds(int ends[2]) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  char byte;
  CHECK(close(ends[1]) == 0 && read(ends[0], &byte, 1) == 0);
  _exit(0);
}

int main(void) {
  needs_bis();
  volatile int *theirs = map(), *file = stays();
  int ends[2];
  CHECK(pipe(ends) == 0);
  holds(ends);
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && *theirs == times && *file == times);
  ++*theirs, ++*file;
  if (times < 2) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  CHECK(bis_discard(handle) == 0);

  volatile int *own = map();
  *own = 7;
  times = bis_checkpoint(&handle);
  printf("%d: %d\n", times, *own);
  CHECK(times >= 0 && *own == (times == 2 ? 8 : 7) && file[1] == times);
  ++*own, ++file[1];
  if (times == 1) holds(ends);
  if (times < 2) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  CHECK(bis_discard(handle) == 0 && close(ends[1]) == 0);
  for (int i = 0; i < 2; i++) {
    int status;
    CHECK(wait(&status) > 0 && status == 0);
  }
  return guest_ok();
}
