// PTRACE_INTERRUPT of a task that makes no calls, and is mostly in an instruction that has a hook of its own: it stops.
// hooked: nothing makes fnstenv fault, so only text that is patched is recorded
#include "looping.h"

enum { ROUNDS = 8 };

static void stores_environments(void) {
  static char environment[28];
  for (;;) __asm__ volatile("fnstenv %0\n fldenv %0\n nop" : "=m"(environment) : : "memory");
}

int main(void) {
  for (int round = 0; round < ROUNDS; round++) {
    pid_t pid = starts(stores_environments);
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    for (int again = 0; again < 3; again++) {
      CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
      CHECK(stop_of(pid, 10000) == (SIGTRAP | PTRACE_EVENT_STOP << 8));
      CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    }
    ends(pid);
  }
  puts("all have stopped");
  return guest_ok();
}
