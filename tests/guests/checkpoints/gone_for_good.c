// Two kinds of threads cannot come back when they have ended: the first one of a process, and one with descriptors of its
// own. A way back to a checkpoint that has one is refused, changes nothing, and the process goes on; it may go back to others.
#define _GNU_SOURCE
#include "checkpoints.h"
#include <sched.h>
#include <sys/wait.h>

static int wakes[2], answers[2];
static volatile int count;
static pthread_t first;

static void *has_its_own(void *arg) {
  char byte;
  CHECK(unshare(CLONE_FILES) == 0);
  CHECK(write(answers[1], "b", 1) == 1 && read(wakes[0], &byte, 1) == 1);
  return arg;
}

// What is remembered over a way back is in shared memory of a file.
static void thread_with_descriptors(void) {
  static volatile int *outside;
  outside = stays();
  pthread_t thread;
  char byte;
  CHECK(pthread_create(&thread, NULL, has_its_own, NULL) == 0 && read(answers[0], &byte, 1) == 1);
  bis_handle before, after;
  int times = bis_checkpoint(&before);
  CHECK(times == outside[0]);
  if (outside[0]++ == 0) CHECK(bis_rollback(before, BIS_RETRY) == -1000);
  // It was there, and is. Now it ends.
  CHECK(write(wakes[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
  count = 5;
  int result = bis_rollback(before, BIS_RETRY);
  printf("a thread with descriptors of its own has ended: %s\n", strerror(-result));
  CHECK(result == -ESRCH && count == 5 && bis_how(before) == BIS_RETRY);
  times = bis_checkpoint(&after);
  CHECK(times == outside[1]);
  if (outside[1]++ == 0) CHECK(bis_rollback(after, BIS_RETRY) == -1000);
  CHECK(bis_rollback(before, BIS_RETRY) == -ESRCH);
  CHECK(bis_discard(before) == 0 && bis_discard(after) == 0);
}

static void *outlives(void *arg) {
  static volatile int *outside;
  outside = stays();
  bis_handle before, after;
  int times = bis_checkpoint(&before);
  CHECK(times == outside[0]);
  if (outside[0]++ == 0) CHECK(bis_rollback(before, BIS_RETRY) == -1000);
  CHECK(write(wakes[1], "x", 1) == 1 && pthread_join(first, NULL) == 0);
  int result = bis_rollback(before, BIS_RETRY);
  printf("the first thread has ended: %s\n", strerror(-result));
  CHECK(result == -ESRCH);
  times = bis_checkpoint(&after);
  CHECK(times == outside[1]);
  if (outside[1]++ == 0) CHECK(bis_rollback(after, BIS_RETRY) == -1000);
  exit(7);
  return arg;
}

static void first_thread(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pthread_t thread;
    char byte;
    first = pthread_self();
    CHECK(pthread_create(&thread, NULL, outlives, NULL) == 0);
    CHECK(read(wakes[0], &byte, 1) == 1);
    pthread_exit(NULL);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void) {
  needs_bis();
  CHECK(pipe(wakes) == 0 && pipe(answers) == 0);
  thread_with_descriptors();
  first_thread();
  return guest_ok();
}
