// As LeakSanitizer does it: a task that shares the memory of a process with threads, and is none of them, attaches
// to all of them, looks where they are, and lets them go on.
#include "../guest.h"
#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define THREADS 3
static volatile int ready, done;
static pid_t process;
static int pipes[2];

static void *waits(void *arg) {
  __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
  if (arg != NULL) {
    char byte;
    CHECK(read(pipes[0], &byte, 1) == 1);
  } else {
    while (!done) sched_yield();
  }
  return NULL;
}

static int tracer(void *arg) {
  (void)arg;
  pid_t tids[16];
  int count = 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", (int)process);
  DIR *tasks = opendir(path);
  if (tasks == NULL) _exit(1);
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
    if (entry->d_name[0] != '.') tids[count++] = atoi(entry->d_name);
  closedir(tasks);
  if (count != THREADS + 1) _exit(2);
  for (int i = 0; i < count; i++) {
    int status;
    if (ptrace(PTRACE_ATTACH, tids[i], 0, 0) != 0) _exit(3);
    if (waitpid(tids[i], &status, __WALL) != tids[i]) _exit(4);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) _exit(5);
  }
  for (int i = 0; i < count; i++) {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, tids[i], 0, &regs) != 0 || regs.rsp == 0) _exit(6);
    if (ptrace(PTRACE_PEEKDATA, tids[i], &ready, 0) == -1) _exit(7);
  }
  for (int i = 0; i < count; i++)
    if (ptrace(PTRACE_DETACH, tids[i], 0, 0) != 0) _exit(8);
  _exit(0);
}

int main(void) {
  process = getpid();
  CHECK(pipe(pipes) == 0);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, waits, i == 0 ? NULL : &threads[i]) == 0);
  while (ready < THREADS) sched_yield();
  static char stack[64 * 1024] __attribute__((aligned(16)));
  pid_t pid = clone(tracer, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, NULL);
  CHECK(pid > 0);
  int status;
  CHECK(waitpid(pid, &status, __WALL) == pid);
  printf("the tracer ends with %#x\n", status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  done = 1;
  CHECK(write(pipes[1], "ab", 2) == 2);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  return guest_ok();
}
