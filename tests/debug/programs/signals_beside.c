// Two threads that compute and signal themselves, and a timer whose signals come to whichever of them.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile int n;
static volatile long sum;
static void handler(int s) { n++; }
static void *work(void *a) {
  for (int i = 0; i < 200; i++) {
    for (volatile int k = 0; k < 20000; k++) sum += k;
    pthread_kill(pthread_self(), SIGUSR1);
  }
  return 0;
}
int main(void) {
  signal(SIGALRM, handler);
  signal(SIGUSR1, handler);
  struct itimerval it = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &it, 0);
  pthread_t t;
  pthread_create(&t, 0, work, 0);
  work(0);
  pthread_join(t, 0);
  printf("%d\n", n > 0);
}
