// fork in a process with threads: the child has one thread, atfork handlers run, locks of others stay locked.
#include "../guest.h"

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static int tell[2], stop[2], before, parent, child;

static void pre(void) { before++; }
static void in_parent(void) { parent++; }
static void in_child(void) { child++; }

static void *holder(void *arg) {
  (void)arg;
  char c;
  pthread_mutex_lock(&held);
  CHECK(write(tell[1], "h", 1) == 1);
  CHECK(read(stop[0], &c, 1) == 1);
  pthread_mutex_unlock(&held);
  return NULL;
}

static void *nothing(void *arg) { return arg; }

int main(void) {
  char c;
  CHECK(pipe(tell) == 0 && pipe(stop) == 0 && pthread_atfork(pre, in_parent, in_child) == 0);
  pthread_t t = start_thread(holder, NULL);
  CHECK(read(tell[0], &c, 1) == 1);
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(before == 1 && child == 1 && parent == 0 && tid_self() == getpid());
    CHECK(pthread_mutex_trylock(&held) == EBUSY);
    CHECK(join_thread(start_thread(nothing, (void *)3)) == (void *)3);
    _exit(4);
  }
  CHECK(parent == 1 && child == 0);
  check_exited(pid, 4);
  CHECK(write(stop[1], "x", 1) == 1);
  join_thread(t);
  // A thread that is not the leader forks.
  printf("%d forked %d\n", getpid(), pid);
  return guest_ok();
}
