// A thread spins, and counts far away, in a process that gets no descriptor any more.
#include "far_away.h"
#include <sys/resource.h>

LOOP("1: " COUNT)

int main(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = 3;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(dup(1) == -1 && errno == EMFILE);
  return count_far_away();
}
