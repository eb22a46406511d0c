// A server that survives a request on which it crashes: it keeps itself before each, and the handler of the crash goes back
// and leaves the request out. (The use that the Flashback paper begins with.)
#include "checkpoints.h"

static bis_handle before;
static char *names[16];
static volatile int count;

static void crashed(int sig) {
  (void)sig;
  bis_rollback(before, BIS_RETRY);
  _exit(3);
}

__attribute__((noinline)) static void serve(const char *request) {
  char *copy = malloc(strlen(request) + 1);
  strcpy(copy, request);
  names[count++] = copy;
  // It has been changed already when it turns out to be one that nobody thought of.
  if (request[0] == '!') {
    memset(names, 0x55, sizeof names);
    names[0][0] = 0;
  }
}

int main(void) {
  needs_bis();
  on_signal(SIGSEGV, crashed, 0);
  static const char *const requests[] = {"one", "two", "!", "three", "!!", "four"};
  int refused = 0;
  for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
    int times = bis_checkpoint(&before);
    CHECK(times >= 0);
    if (times == 0) serve(requests[i]);
    else refused++;
    CHECK(bis_discard(before) == 0);
  }
  for (int i = 0; i < count; i++) printf("%s ", names[i]);
  printf("and %d refused\n", refused);
  CHECK(count == 4 && refused == 2 && strcmp(names[3], "four") == 0);
  return guest_ok();
}
