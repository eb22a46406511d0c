// Processes that make no checkpoint, beside one that does: they end, are killed, execute other programs and make children, and
// who waits for them sees that.
#include "../checkpoints/checkpoints.h"

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  pid_t killed = fork();
  if (killed == 0)
    for (;;) pause();
  pid_t busy = fork();
  if (busy == 0) {
    for (int i = 0; i < 50; i++) {
      pid_t one = fork();
      if (one == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
      }
      check_exited(one, 0);
    }
    _exit(5);
  }
  bis_handle handle = 0;
  int result = bis_checkpoint(&handle);
  CHECK(result >= 0 || result == -ENOSYS);
  if (result >= 0 && result < 2) {
    CHECK(bis_rollback(handle, BIS_RETRY) != 0);
    return 1;
  }
  check_exited(busy, 5);
  CHECK(kill(killed, SIGKILL) == 0);
  check_killed(killed, SIGKILL);
  printf("%d\n", result);
  return guest_ok();
}
