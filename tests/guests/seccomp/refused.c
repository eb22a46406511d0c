// What the kernel refuses: bad programs, bad addresses, flags, and filters of who may still gain privileges.
#include "filter.h"

static long program(int len, void *code) {
  struct sock_fprog prog = {len, code};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

int main(void) {
  struct sock_filter fine[] = {ANSWER(SECCOMP_RET_ALLOW)};
  struct sock_filter no_end[] = {LOAD(nr)};
  struct sock_filter not_aligned[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), ANSWER(0)};
  struct sock_filter bytes[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), ANSWER(0)};
  struct sock_filter too_far[] = {IS(0, 1, 0), ANSWER(SECCOMP_RET_ALLOW)};
  struct sock_filter not_stored[] = {BPF_STMT(BPF_LD | BPF_MEM, 3), ANSWER(0)};
  if (geteuid() != 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) CHECK_ERRNO(program(1, fine), EACCES);
  give_up_privileges();
  CHECK_ERRNO(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL);
  CHECK_ERRNO(program(0, fine), EINVAL);
  CHECK_ERRNO(program(4097, fine), EINVAL);
  CHECK_ERRNO(program(1, (void *)8), EFAULT);
  CHECK_ERRNO(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8), EFAULT);
  CHECK_ERRNO(prctl(PR_SET_SECCOMP, 3, 0), EINVAL);
  CHECK_ERRNO(program(1, no_end), EINVAL);
  CHECK_ERRNO(program(2, not_aligned), EINVAL);
  CHECK_ERRNO(program(2, bytes), EINVAL);
  CHECK_ERRNO(program(2, too_far), EINVAL);
  CHECK_ERRNO(program(2, not_stored), EINVAL);
  CHECK_ERRNO(INSTALL(fine, 1u << 20), EINVAL);
  CHECK_ERRNO(syscall(SYS_seccomp, 99, 0, 0), EINVAL);
  unsigned action = SECCOMP_RET_KILL_PROCESS, odd = 0x12340000;
  CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
  CHECK_ERRNO(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &odd), EOPNOTSUPP);
  CHECK_ERRNO(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 1, &action), EINVAL);
  CHECK_ERRNO(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, 8), EFAULT);
  struct seccomp_notif_sizes sizes = {0, 0, 0};
  CHECK(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0);
  CHECK(sizes.seccomp_notif == 80 && sizes.seccomp_notif_resp == 24 && sizes.seccomp_data == 64);
  CHECK(prctl(PR_GET_SECCOMP) == 0);
  CHECK(program(1, fine) == 0 && prctl(PR_GET_SECCOMP) == 2);
  CHECK_ERRNO(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), EINVAL);
  return guest_ok();
}
