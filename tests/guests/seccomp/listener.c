// A filter with a listener: there is one, or it is refused as by a kernel from before 5.0 (EINVAL), which has no such action
// either, and the program does without.
#include "../guest.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(void) {
  struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {1, allow};
  uint32_t action = SECCOMP_RET_USER_NOTIF;
  int has_action = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  CHECK(has_action || errno == EOPNOTSUPP);
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  int fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  CHECK(fd >= 0 || errno == EINVAL);
  CHECK((fd >= 0) == has_action);
  if (fd < 0) CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
  CHECK(getppid() > 0 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
  return guest_ok();
}
