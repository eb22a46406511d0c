// Threads write lines to standard output, and nothing orders them: replay writes the lines in the order in which they
// came out.
// steps: -DLINES=5
#include "../guest.h"

#ifndef LINES
#define LINES 500
#endif

enum { THREADS = 4 };

static void *write_lines(void *arg) {
  for (int i = 0; i < LINES; i++) {
    char line[64];
    int len = snprintf(line, sizeof line, "thread %d line %d\n", (int)(intptr_t)arg, i);
    CHECK(write(1, line, len) == len);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = start_thread(write_lines, (void *)(intptr_t)i);
  for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
  return guest_ok();
}
