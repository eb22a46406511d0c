// Filters go to children and threads, and stay over exec; what a child installs is its own.
#include "filter.h"

static void *in_thread(void *arg) {
  CHECK_ERRNO(syscall(SYS_getppid), 71);
  struct sock_filter own[] = ONE(SYS_getsid, SECCOMP_RET_ERRNO | 72);
  CHECK(INSTALL(own, 0) == 0);
  CHECK_ERRNO(syscall(SYS_getsid, 0), 72);
  CHECK(status_of("Seccomp_filters:") == 2);
  return arg;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    CHECK_ERRNO(syscall(SYS_getppid), 71);
    CHECK_ERRNO(syscall(SYS_getsid, 0), 73);
    CHECK(prctl(PR_GET_SECCOMP) == 2 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(status_of("Seccomp_filters:") == 2);
    _exit(8);
  }
  give_up_privileges();
  struct sock_filter first[] = ONE(SYS_getppid, SECCOMP_RET_ERRNO | 71);
  CHECK(INSTALL(first, 0) == 0);
  join_thread(start_thread(in_thread, NULL));
  CHECK(syscall(SYS_getsid, 0) >= 0 && status_of("Seccomp_filters:") == 1); // 0: the leader has another pid namespace
  for (int i = 0; i < 3; i++) {
    pid_t p = i == 1 ? vfork() : fork();
    if (p == 0) {
      struct sock_filter second[] = ONE(SYS_getsid, SECCOMP_RET_ERRNO | 73);
      if (INSTALL(second, 0) != 0) _exit(1);
      if (syscall(SYS_getsid, 0) != -1 || errno != 73) _exit(2);
      execl("/proc/self/exe", "inherited", "again", NULL);
      _exit(3);
    }
    check_exited(p, 8);
    printf("child %d\n", p);
    CHECK(syscall(SYS_getsid, 0) >= 0);
    CHECK_ERRNO(syscall(SYS_getppid), 71);
  }
  return guest_ok();
}
