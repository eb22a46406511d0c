// A tracer changes the registers of one thread, which stops again and again, while another thread computes and makes
// calls: what that has computed comes before the change, or behind it.
#include "stepping.h"

enum { ROUNDS = 400 };

static volatile long rounds;
static volatile int ends;

static void *compute(void *arg) {
  long sum = 0;
  for (int i = 0; !ends; i++) {
    for (int k = 0; k < i % 7; k++) sum += k ^ i;
    if (i % 3 == 0) syscall(SYS_getppid);
    rounds++;
  }
  *(long *)arg = sum;
  return NULL;
}

static int tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  long sum;
  pthread_t thread = start_thread(compute, &sum);
  for (int i = 0; i < ROUNDS; i++) {
    long seen;
    __asm__ volatile("int3" : "=a"(seen) : "a"(0L) : "memory");
    CHECK(seen == i + 1);
  }
  ends = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  printf("%ld rounds, sum %ld\n", rounds, sum);
  _exit(5);
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(wait_stop(pid) == SIGTRAP);
    struct user_regs_struct regs = regs_of(pid);
    regs.rax = (unsigned long)i + 1;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  }
  check_exited(pid, 5);
  return guest_ok();
}
