// A 32-bit program: a thread with a variable of its own, a word that somebody writes to, and a handler.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static __thread int mine = 3;
static int victim = 1;
static volatile int handled;

static void *work(void *by) {
  mine += *(int *)by;
  return 0;
}

static void handler(int signal) { handled = signal; }

static void spoil(int *word, int value) {
  *word = value;
}

int main(void) {
  pthread_t thread;
  int by = 4;
  pthread_create(&thread, 0, work, &by);
  pthread_join(thread, 0);
  signal(SIGUSR1, handler);
  for (int i = 0; i < 5; i++) spoil(&victim, i * 7);
  raise(SIGUSR1);
  double half = victim / 2.0;
  printf("victim %d half %.1f mine %d handled %d\n", victim, half, mine, handled);
  return 0;
}
