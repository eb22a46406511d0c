// A process with threads is stopped and continued again and again, wherever its threads are: what one has done between its last
// event and the stop comes before whatever another does after it.
// calm: a task that is waited for at a breakpoint, and stopped with its process right then, gets the trap itself
#include "../guest.h"
#include <stdatomic.h>

enum { TIMES = 300 };
static volatile unsigned long done, seen;
static atomic_int stop;

// Looks at what the other has done, at any time.
static void *watch(void *arg) {
  while (!stop) {
    seen = seen * 31 + done;
    usleep(50);
  }
  return arg;
}

static void over(int sig) {
  (void)sig;
  stop = 1;
}

static void child(int from, int ready) {
  on_signal(SIGUSR1, over, SA_RESTART);
  CHECK(write(ready, "r", 1) == 1);
  pthread_t watcher = start_thread(watch, NULL);
  char c;
  while (!stop) {
    done++;
    CHECK(getppid() > 0);
    done++;
    if (done % 64 == 0) (void)!read(from, &c, 1);
  }
  join_thread(watcher);
  printf("%lu done, seen %lx\n", done, seen);
  exit(0);
}

int main(void) {
  int fd[2], ready[2];
  char c;
  CHECK(pipe(fd) == 0 && pipe(ready) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(close(fd[1]) == 0);
    child(fd[0], ready[1]);
  }
  // Before it has its handler, the last signal would end it.
  CHECK(read(ready[0], &c, 1) == 1);
  for (int i = 0; i < TIMES; i++) {
    int status;
    CHECK(write(fd[1], "x", 1) == 1 && kill(pid, SIGSTOP) == 0);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(write(fd[1], "y", 1) == 1);
    if (i % 3) usleep(i * 7 % 200);
  }
  // The watcher may be the one that gets it, and the other may have read all that there is before: then it reads the end.
  CHECK(kill(pid, SIGUSR1) == 0 && close(fd[1]) == 0);
  check_exited(pid, 0);
  return guest_ok();
}
