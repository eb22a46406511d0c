// A 64-bit program that has had a thread makes calls of the 32-bit table, and no others, for longer than it takes until its text is
// no longer made to count.
#include "../guest.h"
#include <pthread.h>

static void *nothing(void *unused) { return unused; }

static long int80(long number) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number) : "memory", "cc", "r8", "r9", "r10", "r11");
  return result;
}

static double now(void) {
  struct timespec time;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// A kernel may be without them: then the instruction faults.
static int has_int80(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(int80(20) == getpid() ? 0 : 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return status == 0;
}

int main(void) {
  if (!has_int80()) return guest_ok();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
  long pid = getpid(), parent = getppid();
  for (double end = now() + 0.15; now() < end;) {
    CHECK(int80(20) == pid);
    CHECK(int80(64) == parent);
  }
  return guest_ok();
}
