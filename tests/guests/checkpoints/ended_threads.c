// Threads that have ended since come back: with their own ids, in their calls, with the locks that they held. Until then they
// are gone for everybody: joined, not to be sent signals, their robust mutexes given up; and no process waits for them to end.
#include "checkpoints.h"
#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define THREADS 3

static int wakes[2], answers[2];
static volatile int ids[THREADS];
static pthread_mutex_t robust;
static volatile int handled;
static __thread volatile int own;

static int gettid_(void) { return (int)syscall(SYS_gettid); }

static void handler(int signal) {
  (void)signal;
  handled = gettid_();
}

static void *waits(void *arg) {
  long number = (long)arg;
  own = 100 + (int)number;
  ids[number] = gettid_();
  if (number == 0) CHECK(pthread_mutex_lock(&robust) == 0);
  CHECK(write(answers[1], "b", 1) == 1);
  char byte;
  CHECK(read(wakes[0], &byte, 1) == 1);
  CHECK(own == 100 + (int)number && ids[number] == gettid_());
  own = 0;
  CHECK(write(answers[1], "e", 1) == 1);
  return (void *)(number + 7);
}

static void *newer(void *arg) {
  (void)arg;
  char byte;
  CHECK(read(wakes[0], &byte, 1) == 1);
  return NULL;
}

static void answer(char expected) {
  char byte;
  CHECK(read(answers[0], &byte, 1) == 1 && byte == expected);
}

static int count_threads(void) {
  DIR *all = opendir("/proc/self/task");
  CHECK(all != NULL);
  int count = 0;
  for (struct dirent *one; (one = readdir(all)) != NULL;) count += one->d_name[0] != '.';
  CHECK(closedir(all) == 0);
  return count;
}

// The process ends although threads of it are kept: by exit, by its last thread's, by a program that it executes.
static void ends(int how) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pthread_t one, other;
    bis_handle handle;
    CHECK(pthread_create(&one, NULL, newer, NULL) == 0 && pthread_create(&other, NULL, newer, NULL) == 0);
    CHECK(bis_checkpoint(&handle) == 0);
    CHECK(write(wakes[1], "xy", 2) == 2);
    CHECK(pthread_join(one, NULL) == 0 && pthread_join(other, NULL) == 0);
    if (how == 0) _exit(5);
    if (how == 1) pthread_exit(NULL);
    execl("/bin/sh", "sh", "-c", "exit 6", NULL);
    _exit(1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  printf("ended: %d\n", WEXITSTATUS(status));
  static const int expected[] = {5, 0, 6};
  CHECK(WEXITSTATUS(status) == expected[how]);
}

int main(void) {
  needs_bis();
  volatile int *outside = stays();
  CHECK(pipe(wakes) == 0 && pipe(answers) == 0);
  struct sigaction action = {.sa_handler = handler};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_mutexattr_t attributes;
  CHECK(pthread_mutexattr_init(&attributes) == 0);
  CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
  CHECK(pthread_mutex_init(&robust, &attributes) == 0);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, waits, (void *)i) == 0);
    answer('b');
  }
  usleep(10000);
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && outside[0] == times);
  printf("%d: %d %d %d\n", times, ids[0], ids[1], ids[2]);
  CHECK(pthread_mutex_trylock(&robust) == EBUSY);
  int first = times % 2 ? THREADS : 1;
  for (int i = 0; i < first; i++) {
    CHECK(write(wakes[1], "x", 1) == 1);
    answer('e');
  }
  if (first == THREADS) {
    for (long i = 0; i < THREADS; i++) {
      void *result;
      CHECK(pthread_join(threads[i], &result) == 0 && (long)result == i + 7);
      // The kernel says that a thread is done with its stack shortly before it is gone.
      while (syscall(SYS_tgkill, getpid(), ids[i], 0) == 0)
        sched_yield();
      CHECK(errno == ESRCH);
      CHECK(syscall(SYS_tkill, ids[i], SIGUSR1) == -1 && errno == ESRCH);
    }
    CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD && pthread_mutex_consistent(&robust) == 0);
    handled = 0;
    CHECK(kill(getpid(), SIGUSR1) == 0 && handled == getpid());
  }
  outside[0]++;
  if (times < 20) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  for (int i = first; i < THREADS; i++) {
    CHECK(write(wakes[1], "x", 1) == 1);
    answer('e');
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  // Nobody can go back to them any more.
  CHECK(bis_discard(handle) == 0);
  while (count_threads() > 1) usleep(1000);

  // One that had not begun at the one checkpoint, and is in the other.
  bis_handle second;
  outside[1] = 0;
  CHECK(bis_checkpoint(&handle) >= 0);
  static pthread_t one;
  if (outside[1] == 0) {
    CHECK(pthread_create(&one, NULL, newer, NULL) == 0);
    usleep(10000);
    int again = bis_checkpoint(&second);
    CHECK(again == outside[1]);
    outside[2] = (int)second;
    if (++outside[1] == 1) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
    CHECK(write(wakes[1], "x", 1) == 1 && pthread_join(one, NULL) == 0);
  } else {
    CHECK(bis_rollback((bis_handle)outside[2], BIS_RETRY) == -1000);
  }
  CHECK(bis_discard(handle) == 0 && bis_discard(second) == 0);
  for (int how = 0; how < 3; how++) ends(how);
  return guest_ok();
}
