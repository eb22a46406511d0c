// Identities and limits: uids, gids, groups, capabilities' header, rlimits over fork, prctl names, no_new_privs.
#include "../guest.h"
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int main(void) {
  uid_t r, e, s;
  gid_t groups[64];
  CHECK(getresuid(&r, &e, &s) == 0 && r == getuid() && e == geteuid());
  int n = getgroups(64, groups);
  CHECK(n >= 0);
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  CHECK(syscall(SYS_capget, &head, data) == 0);
  char name[17] = "";
  CHECK(prctl(PR_SET_NAME, "a-guest") == 0 && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "a-guest") == 0);
  CHECK(prctl(PR_GET_DUMPABLE) >= 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
  int sig = 0;
  CHECK(prctl(PR_GET_PDEATHSIG, &sig) == 0 && sig == SIGTERM);
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
  struct rlimit l, l2;
  CHECK(getrlimit(RLIMIT_FSIZE, &l) == 0);
  l2 = l;
  l2.rlim_cur = 1000;
  signal(SIGXFSZ, SIG_IGN);
  CHECK(setrlimit(RLIMIT_FSIZE, &l2) == 0);
  pid_t p = fork();
  if (p == 0) {
    static char big[2000];
    int fd = open("f", O_CREAT | O_WRONLY, 0600);
    CHECK(write(fd, big, 2000) == 1000);
    CHECK_ERRNO(write(fd, big, 1), EFBIG);
    _exit(0);
  }
  check_exited(p, 0);
  CHECK(syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &l, &l2) == 0 && l2.rlim_cur == 1000);
  printf("uid %d, %d groups, caps %x %x\n", r, n, data[0].effective, data[1].effective);
  return guest_ok();
}
