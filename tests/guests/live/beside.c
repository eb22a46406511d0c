// A process that shares its memory with another one asks for its first checkpoint: under `bis run` it gets none, because what the
// other does would not be recorded; alone again, it does.
#include "../checkpoints/checkpoints.h"

static volatile int answer = 1;

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  pid_t child = vfork();
  CHECK(child >= 0);
  if (child == 0) {
    bis_handle handle = 0;
    answer = bis_checkpoint(&handle);
    if (answer == 0) bis_discard(handle);
    _exit(0);
  }
  check_exited(child, 0);
  // EAGAIN, recorded from the beginning: its maker is in a vfork.
  CHECK(answer == -ENOSYS || answer == -EBUSY || answer == -EAGAIN);
  bis_handle handle = 0;
  int result = bis_checkpoint(&handle);
  CHECK(result == (answer == -ENOSYS ? -ENOSYS : result > 0 ? 1 : 0));
  if (result == 0) CHECK(bis_rollback(handle, BIS_RETRY) != 0);
  printf("%d %d\n", answer, result);
  return guest_ok();
}
