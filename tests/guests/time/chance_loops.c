// Many numbers from the processor without a system call between them: in a loop, under a timer whose handler asks for some as
// well, in threads that take turns, in a forked child.
// hooked: nothing makes these instructions fault, so only text that is patched is recorded
#include "chance.h"
#include "everywhere.h"

static uint64_t many(int n) {
  uint64_t h = 0;
  for (int i = 0; i < n; i++) h = h * 31 + rdrand64() + rdpid();
  return h;
}

static void try(void) { rdrand64(), rdpid(); }

int main(void) {
  if (!works(try)) {
    puts("the processor has no rdrand or no rdpid");
    return guest_ok();
  }
  everywhere(many);
  return guest_ok();
}
