// All threads go back: one that waits in a call (it makes the call again), one that computes, one that has begun since
// (it ends). Their thread-local variables, too.
#include "checkpoints.h"

static int to_reader[2], to_main[2];
static __thread int own;
static volatile uint64_t computed;
static volatile int stop, newer_runs;
static volatile char seen_by_reader[8];
// What all of it has in common with the time that was taken back.
static volatile int *outside;

static void *reader(void *arg) {
  (void)arg;
  for (own = 0;; own++) {
    char byte;
    CHECK(read(to_reader[0], &byte, 1) == 1);
    if (byte == 'q') return NULL;
    CHECK(own < 8);
    seen_by_reader[own] = byte;
    CHECK(write(to_main[1], &byte, 1) == 1);
  }
}

static void *computes(void *arg) {
  (void)arg;
  while (!stop) computed++;
  return NULL;
}

static void *newer(void *arg) {
  newer_runs = 1;
  __atomic_fetch_add(&outside[1], 1, __ATOMIC_SEQ_CST);
  if (arg != NULL) pause();
  while (!stop) computed += 2;
  return NULL;
}

static char ask(char byte) {
  char answer;
  CHECK(write(to_reader[1], &byte, 1) == 1);
  CHECK(read(to_main[0], &answer, 1) == 1);
  return answer;
}

int main(void) {
  needs_bis();
  outside = stays();
  CHECK(pipe(to_reader) == 0 && pipe(to_main) == 0);
  pthread_t reads, counts, news[2];
  CHECK(pthread_create(&reads, NULL, reader, NULL) == 0);
  CHECK(pthread_create(&counts, NULL, computes, NULL) == 0);
  CHECK(ask('a') == 'a');
  usleep(5000);

  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0);
  uint64_t then = computed;
  printf("%d: the reader has seen %s\n", times, (char *)seen_by_reader);
  CHECK(strcmp((char *)seen_by_reader, "a") == 0 && !newer_runs);
  CHECK(outside[0] == times);
  outside[0]++;
  CHECK(ask('b' + times) == 'b' + times);
  CHECK(seen_by_reader[1] == 'b' + times);
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&news[i], NULL, newer, i ? &news : NULL) == 0);
  while (outside[1] < 2 * times + 2) usleep(100);
  while (computed == then) usleep(100);
  if (times < 5) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  stop = 1;
  CHECK(write(to_reader[1], "q", 1) == 1);
  CHECK(pthread_join(reads, NULL) == 0 && pthread_join(counts, NULL) == 0 && pthread_join(news[0], NULL) == 0);
  CHECK(bis_discard(handle) == 0);
  return guest_ok();
}
