// A writer moves a window, its begin and its end, and a reader looks at both, without a lock. The writer needs a microsecond
// for all of its moves, right after it was started.
#include "rare.h"

#define MOVES 10
#define SIZE 100

static struct window {
  long begin, end;
} window = {0, SIZE};
static long torn;

__attribute__((noinline)) static void move_window(long by) {
  window.begin += by;
  OPAQUE();
  window.end += by;
  OPAQUE();
}

__attribute__((noinline)) static void look(void) {
  long from = window.begin;
  OPAQUE();
  long size = window.end - from;
  if (size != SIZE) torn = size;
}

static void *writer(void *arg) {
  (void)arg;
  for (int i = 0; i < MOVES; i++) {
    move_window(i + 1);
    work(20);
  }
  return NULL;
}

static void *reader(void *arg) {
  (void)arg;
  for (int i = 0; i < MOVES; i++) {
    look();
    work(20);
  }
  return NULL;
}

int main(void) {
  pthread_t first = begin(writer, NULL);
  work(100000);
  pthread_t second = begin(reader, NULL);
  end(first);
  end(second);
  if (torn != 0) WRONG("a window of size %ld was seen", torn);
  return right("every window had its size");
}
