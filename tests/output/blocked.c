// Threads write lines of a page to standard output, whose reader is slow: several wait in the kernel at a
// time.
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, LINES = 60, WIDTH = 4000 };

static void *write_lines(void *arg) {
  char line[WIDTH];
  for (int i = 0; i < LINES; i++) {
    memset(line, '.', sizeof line);
    line[snprintf(line, sizeof line, "thread %d line %d ", (int)(intptr_t)arg, i)] = '.';
    line[WIDTH - 1] = '\n';
    assert(write(1, line, sizeof line) == sizeof line);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert(pthread_create(&threads[i], NULL, write_lines, (void *)(intptr_t)i) == 0);
  for (int i = 0; i < THREADS; i++) assert(pthread_join(threads[i], NULL) == 0);
  return 0;
}
