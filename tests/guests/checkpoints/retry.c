// A program goes back to a checkpoint of itself, with all of its memory as it was, and takes another path: globals, the
// heap, the stack, what was allocated since.
#include "checkpoints.h"

static int global = 1;
static char many[64 << 10];

__attribute__((noinline)) static int deeper(int depth, bis_handle handle) {
  volatile char frame[512];
  memset((char *)frame, depth, sizeof frame);
  if (depth > 0) return deeper(depth - 1, handle) + frame[7];
  return bis_rollback(handle, BIS_RETRY);
}

int main(void) {
  needs_bis();
  char *heap = malloc(100000);
  CHECK(heap != NULL);
  strcpy(heap, "before");
  int local = 3;
  bis_handle handle = 0;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && handle != 0);
  CHECK(bis_how(handle) == (times ? BIS_RETRY : 0));
  CHECK(bis_rollback(handle, 0) == -EINVAL && bis_rollback(handle, 99) == -EINVAL);
  printf("%d: %s %d %d %d\n", times, heap, global, local, many[5000]);
  strcpy(heap, "after");
  global += 10;
  local += 20;
  memset(many, times + 1, sizeof many);
  char *more = malloc(1 << 20);
  CHECK(more != NULL);
  memset(more, 1, 1 << 20);
  if (times < 3) {
    int result = times == 1 ? deeper(40, handle) : bis_rollback(handle, BIS_RETRY);
    printf("not reached: %d\n", result);
    return 1;
  }
  printf("%s %d %d %d\n", heap, global, local, many[5000]);
  CHECK(bis_discard(handle) == 0);
  CHECK(bis_discard(handle) == -EINVAL);
  CHECK(bis_rollback(handle, BIS_RETRY) == -EINVAL);
  CHECK(bis_how(handle) == -EINVAL);
  return guest_ok();
}
