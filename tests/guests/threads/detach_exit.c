// Detached threads, pthread_exit with a value from deep inside, cancellation with cleanup.
#include "../guest.h"

static int cleaned, pipefd[2];

static void cleanup(void *arg) { cleaned += *(int *)arg; }

static void *exits(void *arg) {
  (void)arg;
  pthread_exit((void *)77);
}

static void *blocks(void *arg) {
  int one = 1;
  char c;
  pthread_cleanup_push(cleanup, &one);
  CHECK(write(((int *)arg)[1], "r", 1) == 1);
  CHECK(read(pipefd[0], &c, 1) == 1);  // a cancellation point; nothing ever comes
  pthread_cleanup_pop(0);
  return NULL;
}

static void *detached(void *arg) {
  CHECK(write(((int *)arg)[1], "d", 1) == 1);
  return NULL;
}

int main(void) {
  int tell[2];
  char c;
  CHECK(pipe(pipefd) == 0 && pipe(tell) == 0);
  CHECK(join_thread(start_thread(exits, NULL)) == (void *)77);
  pthread_t t = start_thread(blocks, tell);
  CHECK(read(tell[0], &c, 1) == 1 && c == 'r');
  CHECK(pthread_cancel(t) == 0);
  CHECK(join_thread(t) == PTHREAD_CANCELED && cleaned == 1);
  for (int i = 0; i < 5; i++) {
    t = start_thread(detached, tell);
    CHECK(pthread_detach(t) == 0);
    CHECK(read(tell[0], &c, 1) == 1 && c == 'd');
  }
  printf("%lx\n", (unsigned long)t);
  return guest_ok();
}
