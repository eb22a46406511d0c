// A process has many threads when it makes its first checkpoint: they compute, sleep, wait for each other and for a pipe. All
// of them are as they were when it goes back.
#include "../checkpoints/checkpoints.h"

enum { COMPUTING = 3, ROUNDS = 5 };
static volatile long counts[COMPUTING];
static volatile int over;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static long handed;
static int ends[2];

static void *computes(void *arg) {
  while (!over) counts[(long)arg]++;
  return NULL;
}

static void *sleeps(void *arg) {
  while (!over) usleep(500);
  return arg;
}

static void *is_handed(void *arg) {
  pthread_mutex_lock(&mutex);
  while (!over) {
    handed++;
    pthread_cond_signal(&turn);
    pthread_cond_wait(&turn, &mutex);
  }
  pthread_cond_broadcast(&turn);
  pthread_mutex_unlock(&mutex);
  return arg;
}

static void *reads(void *arg) {
  char byte;
  CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
  return arg;
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  CHECK(pipe(ends) == 0);
  pthread_t threads[COMPUTING + 4];
  for (long i = 0; i < COMPUTING; i++) threads[i] = start_thread(computes, (void *)i);
  threads[COMPUTING] = start_thread(sleeps, NULL);
  threads[COMPUTING + 1] = start_thread(is_handed, NULL);
  threads[COMPUTING + 2] = start_thread(is_handed, NULL);
  threads[COMPUTING + 3] = start_thread(reads, NULL);
  sleep_ms(20);
  long tries = 0, before[COMPUTING];
  bis_handle handle = 0;
  for (int i = 0; i < COMPUTING; i++) before[i] = counts[i];
  int result = bis_checkpoint(&handle);
  if (result != -ENOSYS) {
    for (int i = 0; i < COMPUTING; i++) CHECK(counts[i] >= before[i]);
    CHECK(tries++ == 0);
    printf("%d: %ld %ld %ld %ld\n", result, counts[0], counts[1], counts[2], handed);
    sleep_ms(10);
    if (result < ROUNDS) {
      CHECK(bis_rollback(handle, BIS_RETRY) != 0);
      return 1;
    }
    CHECK(bis_discard(handle) == 0);
  }
  over = 1;
  CHECK(write(ends[1], "x", 1) == 1);
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&turn);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < COMPUTING + 4; i++) join_thread(threads[i]);
  return guest_ok();
}
