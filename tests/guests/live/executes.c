// A program that was executed makes its process's first checkpoint; and a process executes another program after its own, which
// has none, and makes one again.
#include "../checkpoints/checkpoints.h"

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  int depth = argc > 1 ? atoi(argv[1]) : 0;
  bis_handle handle = 0;
  int result = depth == 0 ? -ENOSYS : bis_checkpoint(&handle);
  if (depth > 0 && result == -ENOSYS) return depth == 1 ? guest_ok() : 0;
  printf("depth %d, %d\n", depth, result);
  if (depth > 0 && result == 0) {
    CHECK(bis_rollback(handle, BIS_RETRY) != 0);
    return 1;
  }
  if (depth == 3) return guest_ok();
  char next[8];
  snprintf(next, sizeof next, "%d", depth + 1);
  execl("/proc/self/exe", "executes", next, NULL);
  return 1;
}
