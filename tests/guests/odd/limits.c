// Programs with tight limits of resources: bis must not need what they do not have. Above all, signals that are sent with more than
// their number when no more may wait (RLIMIT_SIGPENDING).
#include "../guest.h"
#include <sys/resource.h>
#include <sys/time.h>

static volatile sig_atomic_t came;
static volatile uint64_t rounds;

static void handler(int sig) {
  (void)sig;
  came++;
}

static void *make_calls(void *arg) {
  for (int i = 0; i < 60; i++) {
    CHECK(getppid() > 0);
    sched_yield();
  }
  return arg;
}

// A timer's signals in computation, alone and while threads make calls.
static void be_interrupted(void) {
  const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  came = 0;
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  while (came < 4) rounds++;
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void work(void) {
  on_signal(SIGUSR1, handler, 0);
  on_signal(SIGALRM, handler, 0);
  be_interrupted();
  pthread_t threads[2];
  int error[2];
  for (int i = 0; i < 2; i++) error[i] = pthread_create(threads + i, NULL, make_calls, NULL);
  be_interrupted();
  for (int i = 0; i < 2; i++)
    if (error[i] == 0) CHECK(pthread_join(threads[i], NULL) == 0);
  pid_t child = fork();
  if (child == 0) {
    execlp("true", "true", NULL);
    _exit(9);
  }
  int status = 0;
  if (child > 0) CHECK(waitpid(child, &status, 0) == child);
  void *more = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  came = 0;
  CHECK(raise(SIGUSR1) == 0 && came == 1);
  int queued = sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 5});
  CHECK(queued == 0 ? came == 2 : errno == EAGAIN);
  printf("threads %d %d, fork %d, its end %x, memory %d, queued %d\n", error[0], error[1], child > 0, status,
         more != MAP_FAILED, queued);
}

int main(void) {
  static const struct {
    const char *name;
    int resource;
    rlim_t limit;
  } limits[] = {
      {"signals that wait", RLIMIT_SIGPENDING, 0}, {"address space", RLIMIT_AS, 40 << 20},
      {"data", RLIMIT_DATA, 4 << 20},              {"locked memory", RLIMIT_MEMLOCK, 0},
      {"stack", RLIMIT_STACK, 64 << 10},           {"files", RLIMIT_NOFILE, 4},
      {"message queues", RLIMIT_MSGQUEUE, 0},      {"locks", RLIMIT_LOCKS, 0},
  };
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    printf("%s: ", limits[i].name);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      const struct rlimit limit = {limits[i].limit, limits[i].limit};
      CHECK(setrlimit(limits[i].resource, &limit) == 0);
      work();
      exit(0);
    }
    check_exited(child, 0);
  }
  return guest_ok();
}
