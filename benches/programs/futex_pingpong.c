// Two threads wake each other in turn through a futex, without any spinning: each turn is a wake and a wait.
// usage: futex_pingpong TURNS
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int turn;
static uint64_t ball = 1;
static long turns;

static void play(int me) {
  for (long i = 0; i < turns; i++) {
    for (int now; (now = atomic_load(&turn)) != me;)
      if (syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0) != 0 && errno != EAGAIN && errno != EINTR)
        abort();
    ball = ball * 6364136223846793005ull + (uint64_t)me;
    atomic_store(&turn, !me);
    if (syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0) abort();
  }
}

static void *other(void *unused) {
  play(1);
  return unused;
}

int main(int argc, char **argv) {
  turns = argc > 1 ? atol(argv[1]) : 100000;
  pthread_t thread;
  if (pthread_create(&thread, NULL, other, NULL) != 0) return perror("pthread_create"), 1;
  play(0);
  pthread_join(thread, NULL);
  printf("%ld turns, %016llx\n", turns, (unsigned long long)ball);
  return 0;
}
