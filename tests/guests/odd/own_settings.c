// What a program sets of itself and asks back, though a recorder has set it otherwise: the time stamp counter and cpuid as
// faults, dumpable, personality, cores; over threads, fork and exec.
#include "../guest.h"
#include <cpuid.h>
#include <setjmp.h>
#include <sys/personality.h>
#include <sys/prctl.h>

#define ARCH_GET_CPUID 0x1011
#define ARCH_SET_CPUID 0x1012

static sigjmp_buf out;
static int faults;

static void on_fault(int sig) {
  faults++;
  siglongjmp(out, sig);
}

static bool tsc_faults(void) {
  if (sigsetjmp(out, 1)) return true;
  __asm__ volatile("rdtsc" ::: "eax", "edx");
  return false;
}

static bool cpuid_faults(void) {
  unsigned a, b, c, d;
  if (sigsetjmp(out, 1)) return true;
  __cpuid(0, a, b, c, d);
  return false;
}

static int tsc_mode(void) {
  int mode = -1;
  CHECK(prctl(PR_GET_TSC, &mode) == 0);
  return mode;
}

static void *in_thread(void *arg) {
  CHECK(tsc_mode() == PR_TSC_SIGSEGV && prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && !tsc_faults());
  CHECK(prctl(PR_GET_DUMPABLE) == 0);
  return arg;
}

int main(int argc, char **argv) {
  on_signal(SIGSEGV, on_fault, SA_NODEFER);
  unsigned before = (unsigned)personality(0xffffffff);
  if (argc > 1) {
    CHECK(before & ADDR_NO_RANDOMIZE);
    CHECK(prctl(PR_GET_DUMPABLE) == 1);
    CHECK(tsc_mode() == PR_TSC_ENABLE && !tsc_faults() && !cpuid_faults());
    CHECK((unsigned)personality(before & ~ADDR_NO_RANDOMIZE) == before);
    CHECK(!(personality(0xffffffff) & ADDR_NO_RANDOMIZE));
    return guest_ok();
  }
  CHECK(tsc_mode() == PR_TSC_ENABLE && !tsc_faults());
  CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0 && tsc_mode() == PR_TSC_SIGSEGV && tsc_faults());
  CHECK_ERRNO(prctl(PR_SET_TSC, 7), EINVAL);
  int dumpable = prctl(PR_GET_DUMPABLE);
  CHECK(dumpable == 1);
  CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
  CHECK_ERRNO(prctl(PR_SET_DUMPABLE, 2), EINVAL);
  join_thread(start_thread(in_thread, NULL));
  CHECK(tsc_faults());
  pid_t pid = fork();
  if (pid == 0) _exit(tsc_faults() && prctl(PR_GET_DUMPABLE) == 0 ? 3 : 4);
  check_exited(pid, 3);
  CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && !tsc_faults() && faults == 2);
  CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && prctl(PR_GET_DUMPABLE) == 1);

  CHECK(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 1);
  bool can = syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0;
  if (can) {
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 0 && cpuid_faults());
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1) == 0);
  } else {
    CHECK(errno == ENODEV);
  }
  CHECK(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 1 && !cpuid_faults());
  if (can) CHECK(syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0);

  CHECK((unsigned)personality(before | ADDR_NO_RANDOMIZE) == before);
  CHECK((unsigned)personality(0xffffffff) == (before | ADDR_NO_RANDOMIZE));
  CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
  printf("persona %x, cpuid can fault %d\n", before, can);
  execl("/proc/self/exe", argv[0], "again", NULL);
  return 1;
}
