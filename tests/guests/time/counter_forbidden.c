// A program that asks for rdtsc to be a fault gets faults, in the thread that asked and in its children, and in
// no other thread; when it asks for them no more it reads the counter again. What it is told is what it set.
#include "counter.h"

#include <setjmp.h>

static __thread sigjmp_buf back;

static void on_fault(int sig) { siglongjmp(back, sig); }

static bool faults(void) {
  if (sigsetjmp(back, 1)) return true;
  rdtsc();
  return false;
}

static bool faults_p(void) {
  uint32_t aux;
  if (sigsetjmp(back, 1)) return true;
  rdtscp(&aux);
  return false;
}

static int mode(void) {
  int mode = -1;
  CHECK(prctl(PR_GET_TSC, &mode) == 0);
  return mode;
}

static void *other(void *arg) {
  int *ends = arg;
  char byte;
  CHECK(!faults() && mode() == PR_TSC_ENABLE);
  CHECK(write(ends[1], "x", 1) == 1 && read(ends[2], &byte, 1) == 1);
  CHECK(!faults() && !faults_p() && mode() == PR_TSC_ENABLE);
  return (void *)read_often(50);
}

int main(int argc, char **argv) {
  on_signal(SIGSEGV, on_fault, 0);
  if (argc > 1) {
    CHECK(mode() == PR_TSC_ENABLE && !faults() && !faults_p());
    printf("after exec: %lx\n", read_often(20));
    return 0;
  }
  printf("mixed %lx\n", read_often(100));
  int ends[4];
  CHECK(pipe(ends) == 0 && pipe(ends + 2) == 0);
  pthread_t thread = start_thread(other, ends);
  char byte;
  CHECK(read(ends[0], &byte, 1) == 1);
  CHECK(mode() == PR_TSC_ENABLE);
  CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
  CHECK(mode() == PR_TSC_SIGSEGV && faults() && faults_p() && faults());
  CHECK(write(ends[3], "x", 1) == 1);
  printf("other thread %lx\n", (uint64_t)join_thread(thread));
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(mode() == PR_TSC_SIGSEGV && faults() && faults_p());
    // The loader reads the counter itself.
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && !faults());
    execl("/proc/self/exe", argv[0], "again", NULL);
    _exit(3);
  }
  check_exited(pid, 0);
  CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && mode() == PR_TSC_ENABLE && !faults() && !faults_p());
  printf("mixed %lx\n", read_often(100));
  return guest_ok();
}
