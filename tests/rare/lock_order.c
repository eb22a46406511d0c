// Three threads take two locks each: the first and the second, the second and the third, the third and the first. All wait
// for ever when each has one. They hold the first for some nanoseconds before they take the other.
#include "rare.h"

#define THREADS 3
#define ROUNDS 4

static pthread_mutex_t locks[THREADS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static atomic_int has_one[THREADS];
static long balance[THREADS];

__attribute__((noinline)) static void transfer(int from, int to, long amount) {
  pthread_mutex_lock(&locks[from]);
  atomic_store(&has_one[from], 1);
  balance[from] -= amount;
  pthread_mutex_lock(&locks[to]);
  atomic_store(&has_one[from], 0);
  balance[to] += amount;
  pthread_mutex_unlock(&locks[to]);
  pthread_mutex_unlock(&locks[from]);
}

static void *worker(void *arg) {
  int from = (int)(uintptr_t)arg;
  for (int i = 0; i < ROUNDS; i++) transfer(from, (from + 1) % THREADS, i);
  return NULL;
}

// Whoever has its first lock, while all others have theirs, can only wait: this is never wrong, however slow the threads are.
static void on_alarm(int sig) {
  (void)sig;
  for (int i = 0; i < THREADS; i++)
    if (!atomic_load(&has_one[i])) return;
  WRONG("each of %d threads waits for another", THREADS);
}

int main(void) {
  signal(SIGALRM, on_alarm);
  struct itimerval often = {{0, 50000}, {0, 50000}};
  MUST(setitimer(ITIMER_REAL, &often, NULL) == 0);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = begin(worker, (void *)(uintptr_t)i);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
  for (int i = 0; i < THREADS; i++) end(threads[i]);
  for (int i = 0; i < THREADS; i++) MUST(balance[i] == 0);
  return right("no thread waited for ever");
}
