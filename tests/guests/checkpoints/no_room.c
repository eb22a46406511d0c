// Where there may be no more processes there is no checkpoint, and the program is told so and goes on; the ones that it has
// are good.
#include "checkpoints.h"
#include <sys/prctl.h>
#include <sys/resource.h>

int main(void) {
  needs_bis();
  static volatile int value = 1;
  bis_handle good, other = 77;
  int times = bis_checkpoint(&good);
  CHECK(times >= 0 && value == 1);
  // Root may have as many processes as it likes; as somebody else, who has none yet, this is the last.
  if (times == 0) {
    if (geteuid() == 0) CHECK(setresuid(54321, 54321, 54321) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    struct rlimit limit = {1, 1};
    CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
    value = 2;
    CHECK(bis_checkpoint(&other) == -EAGAIN);
    CHECK(bis_rollback(other, BIS_RETRY) == -EINVAL);
    puts("no room");
    CHECK(bis_rollback(good, BIS_RETRY) == -1000);
  }
  CHECK(times == 1 && bis_discard(good) == 0);
  return guest_ok();
}
