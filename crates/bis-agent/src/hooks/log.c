#include "log.h"

_Static_assert(LOG_SOON + sizeof(struct entry) <= LOG_LEN, "a log that is taken soon has room for a call without memory");

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
