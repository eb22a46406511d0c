// A process with a checkpoint forks; its child has none. It goes back, and the child is there all the same; the child makes
// checkpoints of its own.
#include "checkpoints.h"

static volatile int *outside;

int main(void) {
  needs_bis();
  outside = stays();
  static volatile int before, after[3000];
  before = 1;
  bis_handle handle;
  volatile int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && before == 1 && after[2000] == 0 && outside[0] == times);
  before = 2;
  after[2000] = 7;
  // From here on the pages that were written since are not the process's alone.
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(bis_rollback(handle, BIS_RETRY) == -EINVAL && bis_discard(handle) == -EINVAL);
    bis_handle own;
    int again = bis_checkpoint(&own);
    CHECK(again >= 0 && before == 2);
    before = 3;
    if (again < 2) bis_rollback(own, BIS_RETRY);
    __atomic_fetch_add(&outside[1], 1, __ATOMIC_SEQ_CST);
    _exit(again == 2 ? 40 + times : 1);
  }
  outside[0]++;
  if (times == 1) while (outside[1] < 2) usleep(100);
  if (times < 2) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  // The children of the times that were taken back are this process's all the same; no other is seen.
  int seen = 0, status;
  for (int i = 0; i < 3; i++) {
    CHECK(wait(&status) > 0 && WIFEXITED(status));
    seen |= 1 << (WEXITSTATUS(status) - 40);
  }
  CHECK(seen == 7);
  CHECK_ERRNO(wait(NULL), ECHILD);
  CHECK(bis_discard(handle) == 0);
  CHECK_ERRNO(wait(NULL), ECHILD);
  return guest_ok();
}
