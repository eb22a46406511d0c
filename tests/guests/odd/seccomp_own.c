// A program with its own seccomp filter: getppid is refused with an errno, SIGSYS for uname, the rest works.
#include "../guest.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

static volatile int sys_nr;
static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)ctx;
  sys_nr = info->si_syscall;
}

int main(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 71),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog prog = {sizeof code / sizeof *code, code};
  on_siginfo(SIGSYS, handler, 0);
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0) {
    printf("no seccomp here: %s\n", strerror(errno));
    return guest_ok();
  }
  CHECK_ERRNO(syscall(SYS_getppid), 71);
  char buf[1024];
  syscall(SYS_uname, buf);
  CHECK(sys_nr == SYS_uname);
  pid_t p = fork();
  if (p == 0) {
    errno = 0;
    _exit(syscall(SYS_getppid) == -1 && errno == 71 ? 6 : 7);
  }
  check_exited(p, 6);
  printf("%d\n", p);
  return guest_ok();
}
