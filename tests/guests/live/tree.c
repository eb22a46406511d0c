// Several processes of a tree make checkpoints, each its own: children, a child's child, and last the first process. What one
// process does is not changed by another one's way back.
#include "../checkpoints/checkpoints.h"

static int own = 1;

static int works(int number) {
  bis_handle handle = 0;
  int result = bis_checkpoint(&handle);
  if (result == -ENOSYS) return number;
  CHECK(result >= 0 && own == 1);
  own += number;
  if (result < number) {
    CHECK(bis_rollback(handle, BIS_RETRY) != 0);
    return 99;
  }
  CHECK(bis_discard(handle) == 0);
  return result;
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  pid_t children[4];
  for (int i = 0; i < 4; i++) {
    children[i] = fork();
    CHECK(children[i] >= 0);
    if (children[i] == 0) {
      if (i == 2) {
        pid_t deeper = fork();
        if (deeper == 0) _exit(works(7));
        check_exited(deeper, 7);
      }
      _exit(works(i + 1));
    }
  }
  for (int i = 0; i < 4; i++) check_exited(children[i], i + 1);
  CHECK(works(3) == 3);
  pid_t after = fork();
  if (after == 0) {
    own = 1;
    _exit(works(2));
  }
  check_exited(after, 2);
  return guest_ok();
}
