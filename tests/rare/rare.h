// What the programs with rare bugs share: how they say what they saw, and ways to pass the time.
//
// Each program here has one bug of a kind that is met in real programs. It does its work and looks whether the result is
// right: "right: ..." and status 0, or "wrong: ..." and status 1. The bug needs a moment that hardly ever comes; how
// often, docs/chaos.md has measured. What looks for the bug relies on no clock, so a slow
// machine makes nothing wrong that is not.
#ifndef RARE_H
#define RARE_H
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The compiler may keep nothing in registers over this: what a function that it cannot look into would do.
#define OPAQUE() __asm__ volatile("" ::: "memory")
#define OPAQUE_VALUE(x) __asm__ volatile("" : "+r"(x))

// The program could not do what it tries to; that is no finding.
#define MUST(cond)                                             \
  do {                                                         \
    if (!(cond)) {                                             \
      fprintf(stderr, "%s:%d: failed: %s (%s)\n", __FILE__, __LINE__, #cond, strerror(errno)); \
      fflush(NULL);                                            \
      _exit(2);                                                \
    }                                                          \
  } while (0)

// Ends the process at once. It is called by one thread at a time, and by handlers of signals.
#define WRONG(...)                                             \
  do {                                                         \
    char text[200];                                            \
    int len = snprintf(text, sizeof text, "wrong: " __VA_ARGS__); \
    text[len] = '\n';                                          \
    MUST(write(1, text, (size_t)len + 1) == len + 1);          \
    _exit(1);                                                  \
  } while (0)

static inline int right(const char *what) {
  printf("right: %s\n", what);
  fflush(stdout);
  return 0;
}

// Computes for about a nanosecond a round, without a call and without memory.
__attribute__((noinline, unused)) static uint64_t work(uint64_t rounds) {
  uint64_t x = rounds | 1;
  for (uint64_t i = 0; i < rounds; i++) {
    x ^= x << 7;
    x ^= x >> 9;
    OPAQUE_VALUE(x);
  }
  return x;
}

static inline void sleep_us(long us) {
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  while (nanosleep(&t, &t) == -1) MUST(errno == EINTR);
}

static inline pthread_t begin(void *(*body)(void *), void *arg) {
  pthread_t t;
  MUST(pthread_create(&t, NULL, body, arg) == 0);
  return t;
}

static inline void end(pthread_t t) { MUST(pthread_join(t, NULL) == 0); }

#endif
