// Segment registers with what the kernel takes from no tracer: a null selector with a privilege, a base in the kernel's half. The program
// has them at calls and signals, in threads and children.
#include "../guest.h"
#include <pthread.h>
#include <sys/auxv.h>

static volatile int heard;
static void hear(int number) { heard += number; }

static void *computes(void *unused) {
  for (int i = 0; i < 300; i++) {
    syscall(SYS_getppid);
    if (i % 50 == 0) sched_yield();
  }
  return unused;
}

static void uses_it(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, computes, NULL) == 0);
  computes(NULL);
  CHECK(raise(SIGUSR1) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(3);
  check_exited(child, 3);
}

int main(void) {
  CHECK(signal(SIGUSR1, hear) != SIG_ERR);
  for (unsigned selector = 1; selector < 4; selector++) {
    // How long the privilege stays there is the kernel's choice.
    __asm__ volatile("movw %w0, %%gs" : : "r"(selector));
    uses_it();
    __asm__ volatile("movw %w0, %%gs" : : "r"(0));
  }
  // HWCAP2_FSGSBASE: the instructions may be used.
  if (getauxval(AT_HWCAP2) & 2) {
    unsigned long base = 0xffff800000000000UL, now;
    __asm__ volatile("wrgsbase %0" : : "r"(base));
    uses_it();
    __asm__ volatile("rdgsbase %0" : "=r"(now));
    CHECK(now == base);
    __asm__ volatile("wrgsbase %0" : : "r"(0UL));
  }
  CHECK(heard >= 3 * SIGUSR1);
  return guest_ok();
}
