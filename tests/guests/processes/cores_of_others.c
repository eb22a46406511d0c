// The cores that one process has asked for another, or for a thread, are those which that one is told: by sched_getaffinity, by
// getcpu, in /proc; its threads and children have them from it, and its next program, too. And who may not ask is told so.
#include "../guest.h"

static cpu_set_t of_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

static void ask_for(pid_t tid, int core) {
  cpu_set_t set = of_core(core);
  CHECK(sched_setaffinity(tid, sizeof set, &set) == 0);
}

static bool has_cores(pid_t tid, const cpu_set_t *cores) {
  cpu_set_t set;
  CHECK(sched_getaffinity(tid, sizeof set, &set) == 0);
  return CPU_EQUAL(&set, cores);
}

static bool has_core(pid_t tid, int core) {
  cpu_set_t set = of_core(core);
  return has_cores(tid, &set);
}

static bool is_shown(pid_t tid, int core) {
  char path[64], line[256], expected[64];
  sprintf(path, "/proc/%d/status", tid);
  sprintf(expected, "Cpus_allowed_list:\t%d\n", core);
  FILE *status = fopen(path, "r");
  CHECK(status);
  bool found = false;
  while (fgets(line, sizeof line, status)) found |= !strcmp(line, expected);
  fclose(status);
  return found;
}

static void tell(int fd, int word) { CHECK(write(fd, &word, sizeof word) == sizeof word); }

static int hear(int fd) {
  int word;
  CHECK(read(fd, &word, sizeof word) == sizeof word);
  return word;
}

static int first, last, to[2], from[2];
static cpu_set_t all;

// It tells its number, and then is to be left with all cores, while the first thread is asked for one.
static void *second_thread(void *unused) {
  tell(from[1], tid_self());
  for (;;) {
    int core = hear(to[0]);
    if (core < 0) break;
    tell(from[1], has_core(0, core) && sched_getcpu() == core);
  }
  CHECK(has_core(getpid(), last) && has_core(0, first));
  return unused;
}

static void *inherits(void *core) {
  CHECK(has_core(0, *(int *)core) && sched_getcpu() == *(int *)core);
  return NULL;
}

// Says for each core that it is asked about whether it runs on that.
static void answer(void) {
  for (;;) {
    int core = hear(to[0]);
    if (core < 0) return;
    tell(from[1], sched_getcpu() == core);
  }
}

// The program that the child executes.
static int executed(char **argv) {
  first = atoi(argv[2]), last = atoi(argv[3]);
  CHECK(has_core(0, last) && has_core(getpid(), last) && sched_getcpu() == last);
  tell(1, 1);
  CHECK(hear(0) == 7);
  CHECK(has_core(0, first) && sched_getcpu() == first);
  return 0;
}

static pid_t begin(void (*body)(void)) {
  CHECK(pipe(to) == 0 && pipe(from) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

static void ends(pid_t pid) {
  check_exited(pid, 0);
  close(to[0]), close(to[1]), close(from[0]), close(from[1]);
}

static void has_threads(void) {
  pthread_t thread = start_thread(second_thread, NULL);
  join_thread(thread);
  CHECK(sched_getcpu() == last && is_shown(getpid(), last));
  join_thread(start_thread(inherits, &last));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    inherits(&last);
    _exit(0);
  }
  check_exited(child, 0);
  // What it asks for itself, and for its parent, the parent sees.
  ask_for(0, first);
  ask_for(getppid(), last);
  tell(from[1], 1);
  CHECK(hear(to[0]) == 1 && has_cores(getppid(), &all));
}

static void executes(void) {
  char texts[2][16];
  sprintf(texts[0], "%d", first), sprintf(texts[1], "%d", last);
  char *argv[] = {"self", "executed", texts[0], texts[1], NULL};
  CHECK(hear(to[0]) == 1);
  CHECK(dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1);
  execv("/proc/self/exe", argv);
  _exit(1);
}

static void *thread_executes(void *unused) {
  executes();
  return unused;
}

static void executes_in_thread(void) { join_thread(start_thread(thread_executes, NULL)); }

static void is_refused(void) {
  cpu_set_t set = of_core(first);
  // Who may not change a task's cores may see them.
  if (setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0) {
    CHECK_ERRNO(sched_setaffinity(getppid(), sizeof set, &set), EPERM);
    CPU_ZERO(&set);
    CHECK_ERRNO(sched_setaffinity(getppid(), sizeof set, &set), EPERM);
  }
  CHECK(has_core(getppid(), last));
}

static void waits(void) { CHECK(hear(to[0]) == 1); }

int main(int argc, char **argv) {
  if (argc > 1) return executed(argv);
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  while (!CPU_ISSET(first, &all)) first++;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &all)) last = core;

  pid_t pid = begin(has_threads);
  pid_t thread = hear(from[0]);
  ask_for(pid, last);
  CHECK(has_core(pid, last) && is_shown(pid, last) && has_cores(thread, &all) && has_cores(0, &all));
  for (int i = 0; i < 20; i++) {
    int core = i % 2 ? last : first;
    ask_for(thread, core);
    CHECK(has_core(thread, core) && has_core(pid, last));
    tell(to[1], core);
    CHECK(hear(from[0]) == 1);
  }
  ask_for(thread, first);
  tell(to[1], -1);
  CHECK(hear(from[0]) == 1);
  CHECK(has_core(pid, first) && is_shown(pid, first));
  CHECK(has_core(0, last) && has_core(getpid(), last) && sched_getcpu() == last);
  CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
  tell(to[1], 1);
  ends(pid);

  // A process that stops for no call of its own is told, too.
  pid = begin(answer);
  for (int i = 0; i < 200; i++) {
    int core = i % 2 ? last : first;
    ask_for(pid, core);
    tell(to[1], core);
    CHECK(hear(from[0]) == 1);
  }
  CHECK(sched_setaffinity(pid, sizeof all, &all) == 0 && has_cores(pid, &all));
  tell(to[1], -1);
  ends(pid);

  for (int in_thread = 0; in_thread < 2; in_thread++) {
    pid = begin(in_thread ? executes_in_thread : executes);
    ask_for(pid, in_thread ? first : last);
    if (in_thread) {
      // The one that executes is known by its process's number afterwards.
      pid_t tids[2];
      while (threads_of(pid, tids, 2) < 2) {
        sched_yield();
        if (waitpid(pid, NULL, WNOHANG) != 0) abort();
      }
      ask_for(tids[1], last);
    }
    tell(to[1], 1);
    CHECK(hear(from[0]) == 1 && has_core(pid, last));
    ask_for(pid, first);
    tell(to[1], 7);
    ends(pid);
  }

  ask_for(0, last);
  pid = begin(is_refused);
  ends(pid);
  CHECK(sched_setaffinity(0, sizeof all, &all) == 0);

  pid = begin(waits);
  cpu_set_t set;
  unsigned char bytes[sizeof set];
  CPU_ZERO(&set);
  CHECK_ERRNO(sched_setaffinity(pid, sizeof set, &set), EINVAL);
  CHECK_ERRNO(sched_setaffinity(pid, 0, &set), EINVAL);
  CHECK_ERRNO(sched_setaffinity(pid, sizeof set, (void *)1), EFAULT);
  CHECK_ERRNO(sched_setaffinity(-pid, sizeof set, &set), ESRCH);
  CHECK_ERRNO(syscall(SYS_sched_getaffinity, pid, 4, bytes), EINVAL);
  CHECK_ERRNO(syscall(SYS_sched_getaffinity, pid, 0, bytes), EINVAL);
  CHECK_ERRNO(sched_getaffinity(-pid, sizeof set, &set), ESRCH);
  CHECK(has_cores(pid, &all));
  tell(to[1], 1);
  ends(pid);
  CHECK_ERRNO(sched_setaffinity(pid, sizeof set, &all), ESRCH);
  CHECK_ERRNO(sched_getaffinity(pid, sizeof set, &set), ESRCH);
  // The copy comes first.
  CHECK_ERRNO(sched_setaffinity(pid, sizeof set, (void *)1), EFAULT);
  printf("cores %d to %d\n", first, last);
  return guest_ok();
}
