// Each thing that a filter may say: an errno, SIGSYS for a handler, without a handler, blocked or ignored, the end of the
// process, what a tracer would be asked, what goes to the kernel's log. The strictest of several wins.
#include "filter.h"

static siginfo_t seen;
static volatile int count;
static volatile long rax, rip;

static void handler(int sig, siginfo_t *info, void *context) {
  ucontext_t *uc = context;
  (void)sig;
  seen = *info;
  rax = uc->uc_mcontext.gregs[REG_RAX];
  rip = uc->uc_mcontext.gregs[REG_RIP];
  uc->uc_mcontext.gregs[REG_RAX] = 4711;
  count++;
}

static long uname_here(void *buf, long *after) {
  long result;
  __asm__ volatile("syscall\n1: lea 1b(%%rip), %%rdx" : "=a"(result), "=&d"(*after) : "0"(SYS_uname), "D"(buf) : "rcx", "r11", "memory");
  return result;
}

static void ends(unsigned answer, void (*before)(void), int sig) {
  pid_t p = fork();
  if (p == 0) {
    struct sock_filter one[] = ONE(SYS_getpgrp, 0);
    one[2].k = answer;
    before();
    CHECK(INSTALL(one, 0) == 0);
    syscall(SYS_getpgrp);
    _exit(99);
  }
  check_killed(p, sig);
  printf("killed: %#x\n", answer);
}

static void as_it_is(void) {}
static void by_default(void) { signal(SIGSYS, SIG_DFL); }
static void ignored(void) { signal(SIGSYS, SIG_IGN); }
static void blocked(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGSYS);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}

int main(void) {
  CHECK(prctl(PR_GET_SECCOMP) == 0 && status_of("Seccomp:") == 0);
  give_up_privileges();
  CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && status_of("NoNewPrivs:") == 1);
  on_siginfo(SIGSYS, handler, 0);
  struct sock_filter errno_71[] = ONE(SYS_getppid, SECCOMP_RET_ERRNO | 71);
  struct sock_filter errno_72[] = ONE(SYS_getppid, SECCOMP_RET_ERRNO | 72);
  struct sock_filter logged[] = ONE(SYS_getpid, SECCOMP_RET_LOG);
  struct sock_filter traced[] = ONE(SYS_getuid, SECCOMP_RET_TRACE | 3);
  struct sock_filter trapped[] = ONE(SYS_uname, SECCOMP_RET_TRAP | 33);
  struct sock_filter none[] = ONE(SYS_getsid, SECCOMP_RET_ERRNO);
  CHECK(INSTALL(errno_71, 0) == 0);
  CHECK(prctl(PR_GET_SECCOMP) == 2 && status_of("Seccomp:") == 2 && status_of("Seccomp_filters:") == 1);
  for (int i = 0; i < 3; i++) CHECK_ERRNO(syscall(SYS_getppid), 71);
  CHECK(INSTALL(errno_72, SECCOMP_FILTER_FLAG_LOG) == 0);
  for (int i = 0; i < 3; i++) CHECK_ERRNO(syscall(SYS_getppid), 72);
  CHECK(INSTALL(logged, 0) == 0 && syscall(SYS_getpid) == getpid());
  CHECK(INSTALL(traced, 0) == 0);
  CHECK_ERRNO(syscall(SYS_getuid), ENOSYS);
  CHECK(INSTALL(none, 0) == 0 && syscall(SYS_getsid, 0) == 0);
  CHECK(INSTALL(trapped, SECCOMP_FILTER_FLAG_SPEC_ALLOW) == 0);
  CHECK(status_of("Seccomp_filters:") == 6);
  for (int i = 1; i < 5; i++) {
    char buf[1024];
    long after;
    CHECK(uname_here(buf, &after) == 4711 && count == i);
    CHECK(seen.si_signo == SIGSYS && seen.si_code == 1 && seen.si_errno == 33 && seen.si_syscall == SYS_uname);
    CHECK(seen.si_arch == AUDIT_ARCH_X86_64 && (long)seen.si_call_addr == after);
    CHECK(rax == SYS_uname && rip == after);
  }
  ends(SECCOMP_RET_TRAP, by_default, SIGSYS);
  ends(SECCOMP_RET_TRAP, ignored, SIGSYS);
  ends(SECCOMP_RET_TRAP, blocked, SIGSYS);
  ends(SECCOMP_RET_KILL_PROCESS, as_it_is, SIGSYS);
  ends(SECCOMP_RET_KILL_THREAD, as_it_is, SIGSYS);
  ends(0x12340000, as_it_is, SIGSYS);
  return guest_ok();
}
