// Threads that compute and send one another signals.
#include "../guest.h"
#include <stdatomic.h>

enum { THREADS = 4, EACH = 150 };
static atomic_int ids[THREADS], ready, sent, done;
static __thread volatile int got;
static atomic_int total;

static void handler(int sig) {
  (void)sig;
  got++;
  total++;
}

static void *storm(void *arg) {
  int me = (int)(intptr_t)arg;
  ids[me] = tid_self();
  ready++;
  while (ready < THREADS) {
  }
  unsigned random = (unsigned)me * 2654435761u + 1;
  for (int i = 0; i < EACH; i++) {
    random = random * 1664525 + 1013904223;
    for (volatile unsigned n = random >> 20; n; n--) {
    }
    CHECK(tgkill(getpid(), ids[(random >> 8) % THREADS], SIGUSR1) == 0);
    sent++;
  }
  done++;
  while (done < THREADS) {
  }
  printf("thread %d got %d\n", me, got);
  return NULL;
}

int main(void) {
  on_signal(SIGUSR1, handler, SA_RESTART);
  pthread_t t[THREADS];
  for (intptr_t i = 0; i < THREADS; i++) t[i] = start_thread(storm, (void *)i);
  for (int i = 0; i < THREADS; i++) join_thread(t[i]);
  // Signals of one number do not queue.
  CHECK(sent == THREADS * EACH && total > 0 && total <= sent);
  return guest_ok();
}
