// What asks the processor many times without a system call between: in a loop, in threads that take turns, under a timer whose
// handler asks as well, in a forked child.
#ifndef EVERYWHERE_H
#define EVERYWHERE_H
#include "../guest.h"

enum { THREADS = 4 };

static uint64_t (*asks)(int);
static volatile uint64_t of_handler, sum[THREADS];
static volatile int ticks;

static void tick(int sig) {
  (void)sig;
  of_handler = of_handler * 31 + asks(10);
  ticks++;
}

static void *in_thread(void *arg) {
  int i = *(int *)arg;
  sum[i] = asks(4000 * (i + 1));
  return arg;
}

// `many` asks so many times, and gives a hash of the answers.
static void everywhere(uint64_t (*many)(int)) {
  asks = many;
  printf("%lx\n", many(60000));
  int n[THREADS];
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++) n[i] = i, t[i] = start_thread(in_thread, &n[i]);
  for (int i = 0; i < THREADS; i++) join_thread(t[i]);
  for (int i = 0; i < THREADS; i++) printf("%lx\n", sum[i]);
  on_signal(SIGALRM, tick, 0);
  struct itimerspec every = {{0, 2000000}, {0, 2000000}};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_settime(timer, 0, &every, NULL) == 0);
  uint64_t h = 0;
  for (int i = 0; i < 200 && ticks < 5; i++) h += many(500);
  CHECK(timer_delete(timer) == 0);
  printf("%lx %lx %d\n", h, of_handler, ticks);
  pid_t p = fork();
  if (p == 0) {
    printf("child %lx\n", many(1000));
    _exit(4);
  }
  check_exited(p, 4);
}

#endif
