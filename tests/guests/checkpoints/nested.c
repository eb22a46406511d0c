// Several checkpoints at once: back to an older one, to a newer one from there, to each of them many times, and discarded
// in any order.
#include "checkpoints.h"

enum { COUNT = 5 };
// What must not be forgotten on the way back is in memory that is not the process's alone.
static int *steps;
static int state[COUNT][1000];

int main(void) {
  needs_bis();
  bis_handle handles[COUNT];
  steps = stays();
  for (int i = 0; i < COUNT; i++) {
    int times = bis_checkpoint(&handles[i]);
    CHECK(times >= 0);
    printf("at %d for the %d. time, after %d steps:", i, times, *steps);
    for (int k = 0; k < COUNT; k++) printf(" %d", state[k][500]);
    puts("");
    // From here: to the newest, to the oldest, to one between, ...
    static const int way[] = {-1, -1, -1, -1, 4, 2, -1, 4, 0, -1, -1, 1, -1, -1, -1, 3, -1, -1};
    int to = *steps < (int)(sizeof way / sizeof *way) ? way[*steps] : -1;
    ++*steps;
    for (int k = 0; k < 1000; k++) state[i][k] = *steps;
    if (to >= 0 && to <= i) {
      CHECK(bis_rollback(handles[to], BIS_RETRY) == -1000);
    }
  }
  static const int order[] = {2, 0, 4, 1, 3};
  for (int i = 0; i < COUNT; i++) {
    CHECK(bis_discard(handles[order[i]]) == 0);
    for (int k = i + 1; k < COUNT; k++) CHECK(bis_how(handles[order[k]]) >= 0);
  }
  return guest_ok();
}
