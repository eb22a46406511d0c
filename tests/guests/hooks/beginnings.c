// What every process and thread asks as it begins: limits, rseq, its list of robust futexes; and what becomes of such a list
// that nobody was told of when its owner ends, by exit and by exec.
#include "rounds.h"
#include <sys/resource.h>

static char *end;
static pthread_mutex_t *shared;

static void limits(void) {
  struct rlimit old, again, low;
  CHECK(prlimit(0, RLIMIT_NOFILE, NULL, &old) == 0 && getrlimit(RLIMIT_NOFILE, &again) == 0);
  CHECK(old.rlim_cur == again.rlim_cur && old.rlim_max == again.rlim_max && old.rlim_cur > 3);
  low = (struct rlimit){old.rlim_cur - 1, old.rlim_max};
  CHECK(prlimit(getpid(), RLIMIT_NOFILE, &low, &again) == 0 && again.rlim_cur == old.rlim_cur);
  CHECK(prlimit(getpid(), RLIMIT_NOFILE, NULL, &again) == 0 && again.rlim_cur == low.rlim_cur);
  CHECK(prlimit(0, RLIMIT_NOFILE, &old, NULL) == 0 && prlimit(0, RLIMIT_NOFILE, NULL, NULL) == 0);
  CHECK_ERRNO(prlimit(0, 1000, NULL, &again), EINVAL);
  CHECK_ERRNO(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, end - 8), EFAULT);
  CHECK_ERRNO(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, end, NULL), EFAULT);
  CHECK_ERRNO(prlimit(0x3fffffff, RLIMIT_NOFILE, NULL, &again), ESRCH);
}

// There is none here, or libc has registered its own already.
static void restartable(void) {
  errno = 0;
  CHECK(syscall(SYS_rseq, end - 64, 32, 0, 0x53053053) == -1);
  CHECK(errno == ENOSYS || errno == EBUSY || errno == EINVAL || errno == EPERM);
}

static void *locks_and_goes(void *mutex) {
  CHECK(pthread_mutex_lock(mutex) == 0);
  return NULL;
}

static void make(pthread_mutex_t *mutex, bool is_shared) {
  pthread_mutexattr_t attr;
  CHECK(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
  if (is_shared) CHECK(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_mutex_init(mutex, &attr) == 0);
}

static void is_orphaned(pthread_mutex_t *mutex) {
  CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(mutex) == 0 && pthread_mutex_unlock(mutex) == 0 && pthread_mutex_destroy(mutex) == 0);
}

static void robust(void) {
  struct robust_list_head *head = NULL, mine = {0};
  size_t len = 0;
  CHECK(syscall(SYS_get_robust_list, 0, &head, &len) == 0 && head && len == sizeof mine);
  CHECK_ERRNO(syscall(SYS_set_robust_list, &mine, 7), EINVAL);
  mine.list.next = &mine.list;
  CHECK(syscall(SYS_set_robust_list, &mine, sizeof mine) == 0);
  struct robust_list_head *now;
  CHECK(syscall(SYS_get_robust_list, 0, &now, &len) == 0 && now == &mine);
  CHECK(syscall(SYS_set_robust_list, head, sizeof mine) == 0);

  pthread_mutex_t own;
  make(&own, false);
  join_thread(start_thread(locks_and_goes, &own));
  is_orphaned(&own);
  for (int how = 0; how < 3; how++) {
    make(shared, true);
    pid_t child = fork();
    if (child == 0) {
      CHECK(pthread_mutex_lock(shared) == 0);
      if (how == 1) execl("/bin/true", "true", NULL);
      if (how == 2) raise(SIGKILL);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && (how == 2) == WIFSIGNALED(status));
    is_orphaned(shared);
  }
}

static void check(int round) {
  limits();
  restartable();
  robust();
  printf("round %d: %ld\n", round, (long)now_ns());
}

int main(void) {
  shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  end = edge();
  rounds(check);
  return guest_ok();
}
