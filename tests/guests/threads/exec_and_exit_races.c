// Threads that exit, fork, exec and are killed at the same time, thirty processes in a row.
#include "../guest.h"

static char *self;

static void *ends(void *arg) {
  (void)arg;
  sched_yield();
  return NULL;
}

static void *forks(void *arg) {
  (void)arg;
  pid_t p = fork();
  if (p == 0) _exit(0);
  waitpid(p, NULL, 0);
  return NULL;
}

static void *execs(void *arg) {
  (void)arg;
  execl("/proc/self/exe", self, "5", NULL);
  return NULL;
}

static void *exits(void *arg) {
  (void)arg;
  exit(6);
  return NULL;
}

// Beside a thread that ends the process: the kernel may refuse one more (EAGAIN; seen without bis on Linux 6.18, 2 of 300).
static void start_beside_an_end(void *(*body)(void *)) {
  pthread_t t;
  int refused = pthread_create(&t, NULL, body, NULL);
  CHECK(refused == 0 || refused == EAGAIN);
}

int main(int argc, char **argv) {
  if (argc > 1) return atoi(argv[1]);
  self = argv[0];
  int codes[10] = {0};
  for (int i = 0; i < 30; i++) {
    pid_t p = fork();
    if (p == 0) {
      for (int k = 0; k < 4; k++) start_thread(k % 2 ? ends : forks, NULL);
      start_thread(i % 2 ? execs : exits, NULL);
      if (i % 3 == 0) start_beside_an_end(exits);
      if (i % 5 == 0) _exit(7);
      pause();
    }
    int status;
    CHECK(waitpid(p, &status, 0) == p && WIFEXITED(status));
    int code = WEXITSTATUS(status);
    CHECK(code >= 5 && code <= 7);
    codes[code]++;
  }
  printf("exec %d, exit %d, main %d\n", codes[5], codes[6], codes[7]);
  return guest_ok();
}
