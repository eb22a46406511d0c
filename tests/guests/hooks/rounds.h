// Runs a check again and again: the first call at a place is traced, and the next are hooked. First in a process with
// one thread, where calls may wait in their hook; then with another thread that sleeps, so that they are tried first.
#ifndef ROUNDS_H
#define ROUNDS_H
#include "../guest.h"

enum { ROUNDS = 4 };

static void *rounds_sleeper(void *word) {
  while (__atomic_load_n((int *)word, __ATOMIC_SEQ_CST) == 0) futex(word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  return NULL;
}

static void rounds(void (*check)(int)) {
  for (int i = 0; i < ROUNDS; i++) check(i);
  int word = 0;
  pthread_t sleeper = start_thread(rounds_sleeper, &word);
  for (int i = 0; i < ROUNDS; i++) check(ROUNDS + i);
  __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
  futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  join_thread(sleeper);
}

// A page, and after it one that is not there.
static inline char *edge(void) {
  char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED && munmap(page + PAGE, PAGE) == 0);
  return page + PAGE;
}
#endif
