// A filter for all threads at once (TSYNC): it comes to those that have none of their own, and not where one has. A thread
// that is killed by a filter leaves the others alone; a process that is takes them all.
#include "filter.h"

static pthread_barrier_t at;
static pid_t stranger;

static void meet(void) { pthread_barrier_wait(&at); }

static void *follows(void *arg) {
  CHECK(syscall(SYS_getppid) > 0);
  meet();
  meet();
  for (int i = 0; i < 100; i++) CHECK_ERRNO(syscall(SYS_getppid), 71);
  CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
  return arg;
}

static void *has_its_own(void *arg) {
  struct sock_filter own[] = ONE(SYS_getsid, SECCOMP_RET_ERRNO | 72);
  give_up_privileges();
  CHECK(INSTALL(own, 0) == 0);
  stranger = tid_self();
  meet();
  meet();
  return arg;
}

static void *is_killed(void *arg) {
  struct sock_filter kill[] = ONE(SYS_getuid, SECCOMP_RET_KILL_THREAD);
  CHECK(INSTALL(kill, 0) == 0);
  meet();
  syscall(SYS_getuid);
  *(int *)arg = 1;
  return arg;
}

static void *waits(void *arg) {
  for (;;) pause();
  return arg;
}

int main(void) {
  pthread_t t[3];
  give_up_privileges();
  CHECK(pthread_barrier_init(&at, NULL, 4) == 0);
  for (int i = 0; i < 3; i++) t[i] = start_thread(follows, NULL);
  meet();
  struct sock_filter all[] = ONE(SYS_getppid, SECCOMP_RET_ERRNO | 71);
  CHECK(INSTALL(all, SECCOMP_FILTER_FLAG_TSYNC) == 0);
  meet();
  for (int i = 0; i < 100; i++) CHECK_ERRNO(syscall(SYS_getppid), 71);
  for (int i = 0; i < 3; i++) join_thread(t[i]);

  CHECK(pthread_barrier_init(&at, NULL, 2) == 0);
  t[0] = start_thread(has_its_own, NULL);
  meet();
  struct sock_filter more[] = ONE(SYS_getuid, SECCOMP_RET_ERRNO | 73);
  CHECK(INSTALL(more, SECCOMP_FILTER_FLAG_TSYNC) == stranger);
  CHECK_ERRNO(INSTALL(more, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH), ESRCH);
  CHECK(syscall(SYS_getuid) >= 0);
  meet();
  join_thread(t[0]);

  int went_on = 0;
  // Nobody joins it: it does not come to its end.
  start_thread(is_killed, &went_on);
  meet();
  sleep_ms(20);
  CHECK(went_on == 0 && syscall(SYS_getuid) >= 0);

  pid_t p = fork();
  if (p == 0) {
    for (int i = 0; i < 3; i++) start_thread(waits, NULL);
    struct sock_filter kill[] = ONE(SYS_getgid, SECCOMP_RET_KILL_PROCESS);
    CHECK(INSTALL(kill, 0) == 0);
    syscall(SYS_getgid);
    _exit(9);
  }
  check_killed(p, SIGSYS);
  printf("%d %d\n", stranger, p);
  return guest_ok();
}
