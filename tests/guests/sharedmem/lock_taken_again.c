// As threads/lock_taken_again, but the lock is in memory that processes share: one takes it again and again,
// and makes all its calls while it holds it.
#include "../ways_to_wait.h"

enum { WAITERS = 2 };

int main(void) {
  struct lock *lock = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(lock != MAP_FAILED);
  pthread_mutexattr_t attr;
  CHECK(pthread_mutexattr_init(&attr) == 0);
  CHECK(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_mutex_init(&lock->mutex, &attr) == 0);
  for (int way = 0; way < WAYS; way++) {
    pid_t waiters[WAITERS];
    lock->done = 0;
    for (int i = 0; i < WAITERS; i++) {
      waiters[i] = fork();
      CHECK(waiters[i] >= 0);
      if (waiters[i] == 0) {
        take_times(&ways[way], lock);
        _exit(0);
      }
    }
    take_until(&ways[way], lock, WAITERS * TIMES);
    for (int i = 0; i < WAITERS; i++) check_exited(waiters[i], 0);
  }
  return guest_ok();
}
