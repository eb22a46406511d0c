// Robust mutexes: an owner that dies (a thread, then a whole process) leaves EOWNERDEAD, and it can be repaired.
#include "../guest.h"

static pthread_mutex_t *m;

static void *dies_holding(void *arg) {
  (void)arg;
  CHECK(pthread_mutex_lock(m) == 0);
  return NULL;
}

int main(void) {
  m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  CHECK(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
  CHECK(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_mutex_init(m, &attr) == 0);
  join_thread(start_thread(dies_holding, NULL));
  CHECK(pthread_mutex_lock(m) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(m) == 0 && pthread_mutex_unlock(m) == 0);
  CHECK(pthread_mutex_lock(m) == 0 && pthread_mutex_unlock(m) == 0);
  pid_t child = fork();
  if (child == 0) {
    dies_holding(NULL);
    raise(SIGKILL);
  }
  check_killed(child, SIGKILL);
  CHECK(pthread_mutex_trylock(m) == EOWNERDEAD);
  CHECK(pthread_mutex_unlock(m) == 0);  // not repaired: dead for ever
  CHECK(pthread_mutex_lock(m) == ENOTRECOVERABLE);
  void *head;
  size_t len;
  CHECK(syscall(SYS_get_robust_list, 0, &head, &len) == 0 && len == 24);
  printf("robust list at %p, child %d\n", head, child);
  return guest_ok();
}
