// A thousand ways back to one checkpoint, and a hundred checkpoints held at once; what they took of memory is free when
// they are discarded.
#include "checkpoints.h"

enum { HELD = 100, PAGES = 16 };
static volatile char pages[PAGES][4096];

int main(void) {
  needs_bis();
  bis_handle one;
  int times = bis_checkpoint(&one);
  for (int i = 0; i < PAGES; i++) CHECK(pages[i][i] == 0);
  for (int i = 0; i < PAGES; i++) pages[i][i] = 1;
  if (times < 1000) CHECK(bis_rollback(one, BIS_RETRY) == -1000);
  CHECK(times == 1000 && bis_discard(one) == 0);

  static bis_handle held[HELD];
  static volatile int back;
  for (int i = 0; i < HELD; i++) {
    pages[i % PAGES][7] = i;
    int again = bis_checkpoint(&held[i]);
    CHECK(again == 0 || again == 1);
    if (again == 1) {
      CHECK(i == 40 && pages[40 % PAGES][7] == 40 && pages[41 % PAGES][7] == 41 - PAGES);
      puts("back to the 40th");
      back = 1;
    }
    // Those that are newer are there all the same.
    if (i == HELD - 1 && !back) CHECK(bis_rollback(held[40], BIS_RETRY) == -1000);
  }
  for (int i = 0; i < HELD; i++) CHECK(bis_discard(held[i]) == 0);
  return guest_ok();
}
