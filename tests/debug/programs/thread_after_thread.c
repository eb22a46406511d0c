// Threads, one after the other.
#include <pthread.h>
#include <stdio.h>

static void *work(void *number) {
  printf("%ld\n", (long)number);
  fflush(stdout);
  return number;
}

int main(void) {
  for (long i = 0; i < 3; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, (void *)i);
    pthread_join(thread, NULL);
  }
  return 7;
}
