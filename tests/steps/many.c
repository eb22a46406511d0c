// Threads, a timer's handler, a child and many calls: all that comes between the steps of one task.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;

static void on_alarm(int signal) {
  (void)signal;
  handled = handled + 1;
}

static void *work(void *start) {
  for (long n = 0; n < 40; n++) {
    pthread_mutex_lock(&lock);
    total += (long)start + n;
    pthread_mutex_unlock(&lock);
    if (n % 10 == 0) getppid();
  }
  return NULL;
}

int main(void) {
  signal(SIGALRM, on_alarm);
  struct itimerval often = {{0, 3000}, {0, 3000}};
  setitimer(ITIMER_REAL, &often, NULL);
  pthread_t threads[2];
  for (long n = 0; n < 2; n++) pthread_create(&threads[n], NULL, work, (void *)n);
  while (handled < 1) getppid();
  for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  pid_t child = fork();
  if (child == 0) _exit(total == 1600 ? 3 : 4);
  int status;
  while (waitpid(child, &status, 0) != child) {
  }
  printf("%ld %d\n", total, WEXITSTATUS(status));
  return 0;
}
