// A pid namespace: inside, every task has another number than outside, also where only the kernel gets to see it.
// The first process in there gets no signal that it has no handler for, takes all others with it when it ends, and
// can still be ended by its own fault.
// needs: root
#include "../guest.h"
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/uio.h>

static pid_t clone_with(unsigned long flags, pid_t *told) {
  return (pid_t)syscall(SYS_clone, flags | SIGCHLD | CLONE_PARENT_SETTID, 0, told, 0, 0);
}

static void *tell_tid(void *arg) {
  *(pid_t *)arg = tid_self();
  return NULL;
}

static pthread_mutex_t mutex;

static void *die_holding(void *arg) {
  CHECK(pthread_mutex_lock(&mutex) == 0);
  return arg;
}

static volatile int caught;
static void catch(int sig) { caught = sig; }

static volatile pid_t sender;
static void catch_info(int sig, siginfo_t *info, void *context) {
  (void)context;
  caught = sig;
  sender = info->si_pid;
}

static volatile char target[8] = "before";

static void inside(int *shared) {
  CHECK(getpid() == 1 && getppid() == 0);
  pid_t told = 0;
  pid_t child = clone_with(0, &told);
  if (child == 0) _exit(3);
  printf("a child: %d, told %d\n", child, told);
  CHECK(child == 2 && told == 2);
  check_exited(child, 3);

  // A vfork's result is known before the call returns.
  pid_t v = vfork();
  if (v == 0) _exit(4);
  CHECK(v == 3);
  check_exited(v, 4);

  pid_t tid = 0;
  join_thread(start_thread(tell_tid, &tid));
  CHECK(tid == 4);

  // The kernel compares the owner of a robust mutex with what the task calls itself.
  pthread_mutexattr_t attr;
  CHECK(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
  CHECK(pthread_mutex_init(&mutex, &attr) == 0);
  join_thread(start_thread(die_holding, NULL));
  CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD && pthread_mutex_consistent(&mutex) == 0);
  CHECK(pthread_mutex_unlock(&mutex) == 0);

  // No default action; but a handler.
  CHECK(kill(1, SIGTERM) == 0 && raise(SIGUSR2) == 0);
  on_siginfo(SIGUSR1, catch_info, 0);
  CHECK(kill(1, SIGUSR1) == 0 && caught == SIGUSR1 && sender == 1);

  // Signals that come in the middle of computation, and into a wait.
  on_signal(SIGCHLD, catch, SA_RESTART);
  for (int i = 0; i < 20; i++) {
    caught = 0;
    child = fork();
    if (child == 0) _exit(i);
    check_exited(child, i);
    CHECK(caught == SIGCHLD);
  }
  signal(SIGCHLD, SIG_DFL);

  // Calls that name another process.
  int p[2], q[2];
  char c;
  CHECK(pipe(p) == 0 && pipe(q) == 0);
  child = fork();
  if (child == 0) {
    CHECK(read(p[0], &c, 1) == 1);
    CHECK(strcmp((char *)target, "after!") == 0 && getpriority(PRIO_PROCESS, 0) == 3);
    _exit(5);
  }
  struct iovec from = {"after!", 7}, to = {(void *)target, 7};
  CHECK(process_vm_writev(child, &from, 1, &to, 1, 0) == 7);
  CHECK(setpriority(PRIO_PROCESS, child, 3) == 0);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(0, &cpus);
  CHECK(sched_setaffinity(child, sizeof cpus, &cpus) == 0);
  CHECK_ERRNO(sched_setaffinity(12345, sizeof cpus, &cpus), ESRCH);
  CHECK(write(p[1], "x", 1) == 1);
  check_exited(child, 5);

  // One level further.
  child = clone_with(CLONE_NEWPID, &told);
  if (child == 0) {
    CHECK(getpid() == 1);
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(6);
    CHECK(grandchild == 2);
    check_exited(grandchild, 6);
    _exit(7);
  }
  CHECK(child == told && child > 2);
  check_exited(child, 7);

  // It ends while others still wait, compute, or are in a vfork, and share memory with it.
  for (int i = 0; i < 3; i++) {
    child = fork();
    if (child == 0) {
      for (shared[i] = 1; i == 1;) getppid();
      if (i == 2 && vfork() == 0) pause();
      pause();
    }
  }
  while (!shared[0] || !shared[1] || !shared[2]) sleep_ms(1);
  _exit(8);
}

int main(void) {
  int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  pid_t told = 0;
  pid_t first = clone_with(CLONE_NEWPID, &told);
  if (first == 0) inside(shared);
  printf("the namespace's first process, seen from outside: %d\n", first);
  CHECK(first == told);
  check_exited(first, 8);

  // Its own fault ends it, and so does SIGKILL from outside; both with others inside.
  for (int i = 0; i < 3; i++) {
    int p[2];
    char c;
    CHECK(pipe(p) == 0);
    first = clone_with(CLONE_NEWPID, &told);
    if (first == 0) {
      pid_t child = fork();
      if (child == 0) pause();
      CHECK(child == 2);
      if (i == 0) *(volatile int *)16 = 1;
      if (i == 1) __asm__ volatile("int3");
      CHECK(write(p[1], "x", 1) == 1);
      pause();
    }
    if (i == 2) CHECK(read(p[0], &c, 1) == 1 && kill(first, SIGTERM) == 0 && kill(first, SIGKILL) == 0);
    check_killed(first, i == 0 ? SIGSEGV : i == 1 ? SIGTRAP : SIGKILL);
  }

  // Children of a process that has unshared: the first is process 1 of the new namespace.
  CHECK(unshare(CLONE_NEWPID) == 0);
  for (int i = 0; i < 1; i++) {
    pid_t child = fork();
    if (child == 0) _exit(getpid());
    check_exited(child, 1);
  }
  return guest_ok();
}
