#include "log.h"

u64 hooks_leave(void) {
  return leave_soon(S->replay, S->pos);
}

u64 hooks_leave_traced(void) {
  S->done -= 2;
  end_hook();
  return 0;
}

u64 hooks_leave_marked(struct entry *e, enum leaving how) {
  if (how == WAITING) S->waits = 1;
  finish(e, sizeof *e, how == LATELY ? LEFT | LATE : LEFT);
  return hooks_leave_traced();
}
