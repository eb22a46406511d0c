// A process forks while one of its threads writes to a log under a lock. The child has the lock, taken, and no thread that
// will release it. The thread logs for a microsecond; the fork comes half a millisecond later.
#include "rare.h"

#define LINES 5

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char buffer[LINES + 2][16];
static int lines;

__attribute__((noinline)) static int log_line(const char *text, int may_wait) {
  if (may_wait) pthread_mutex_lock(&mutex);
  // A child that waits here waits for ever: it has one thread, and that does not hold the lock.
  else if (pthread_mutex_trylock(&mutex) != 0) return -1;
  strncpy(buffer[lines], text, sizeof buffer[0] - 1);
  lines++;
  pthread_mutex_unlock(&mutex);
  return 0;
}

static void *worker(void *arg) {
  (void)arg;
  for (int i = 0; i < LINES; i++) log_line("request", 1);
  return NULL;
}

int main(void) {
  pthread_t thread = begin(worker, NULL);
  work(500000);
  pid_t pid = fork();
  MUST(pid >= 0);
  if (pid == 0) _exit(log_line("child", 0) == 0 ? 0 : 1);
  int status = -1;
  MUST(waitpid(pid, &status, 0) == pid);
  end(thread);
  MUST(WIFEXITED(status));
  if (WEXITSTATUS(status) != 0) WRONG("the child waits for a lock that nobody holds");
  return right("the child had its lock");
}
