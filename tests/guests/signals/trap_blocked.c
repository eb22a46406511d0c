// Threads compute while they have SIGTRAP blocked: that stays so, and so does its handler.
#include <pthread.h>

#include "../guest.h"

enum { ROUNDS = 3, STEPS = 25000000 };

static volatile long caught, sum;

static void handler(int sig) {
  (void)sig;
  caught++;
}

static void compute(void) {
  for (int i = 0; i < STEPS; i++) sum++;
}

static void check_blocked(bool blocked) {
  sigset_t set;
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGTRAP) == blocked);
}

static void *with_blocked(void *arg) {
  (void)arg;
  sigset_t all;
  sigfillset(&all);
  for (int round = 0; round < ROUNDS; round++) {
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    compute();
    check_blocked(true);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
    compute();
    check_blocked(false);
  }
  CHECK(raise(SIGTRAP) == 0);
  return NULL;
}

int main(void) {
  on_signal(SIGTRAP, handler, 0);
  pthread_t one, other;
  CHECK(pthread_create(&one, NULL, with_blocked, NULL) == 0);
  CHECK(pthread_create(&other, NULL, with_blocked, NULL) == 0);
  CHECK(pthread_join(one, NULL) == 0 && pthread_join(other, NULL) == 0);
  CHECK(caught == 2);
  struct sigaction now;
  CHECK(sigaction(SIGTRAP, NULL, &now) == 0 && now.sa_handler == handler);
  return guest_ok();
}
