// A tracer lets two threads of its tracee go on that it has stopped, one after the other. The first spins for the second, which gets its
// turn all the same.
#include "../guest.h"
#include <pthread.h>
#include <sys/ptrace.h>

static struct shared {
  volatile int tid, go, done;
} *shared;

static void *other(void *arg) {
  shared->tid = (int)syscall(SYS_gettid);
  while (!shared->go);
  shared->done = 1;
  return arg;
}

static void spins(void) {
  pthread_t thread;
  volatile long rounds = 0;
  CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
  while (!shared->tid) usleep(1000);
  while (!shared->go) usleep(1000);
  while (!shared->done) rounds++;
  CHECK(pthread_join(thread, NULL) == 0);
  _exit(5);
}

static void stop(pid_t tid) {
  int status;
  CHECK(ptrace(PTRACE_SEIZE, tid, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0);
  CHECK(waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status));
}

int main(void) {
  int status;
  shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  pid_t first = fork();
  CHECK(first >= 0);
  if (first == 0) spins();
  while (!shared->tid) usleep(1000);
  pid_t second = shared->tid;
  stop(first);
  stop(second);
  shared->go = 1;
  CHECK(ptrace(PTRACE_CONT, first, 0, 0) == 0);
  usleep(50000);
  CHECK(ptrace(PTRACE_CONT, second, 0, 0) == 0);
  for (;;) {
    pid_t tid = waitpid(-1, &status, __WALL);
    CHECK(tid > 0);
    if (WIFSTOPPED(status))
      CHECK(ptrace(PTRACE_CONT, tid, 0, status >> 16 ? 0 : WSTOPSIG(status)) == 0);
    else if (tid == first)
      break;
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  return guest_ok();
}
