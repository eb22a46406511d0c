// A thread executes a program while the first thread of its process makes calls: the kernel ends that one wherever it is, and
// says nothing of its end where it has just been let go on.
#include "../guest.h"

static char *self;
static int rounds;

static void *execs(void *arg) {
  (void)arg;
  for (volatile int i = 0; i < rounds; i++) {
  }
  execl("/proc/self/exe", self, "5", NULL);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc > 1) return atoi(argv[1]);
  self = argv[0];
  for (int i = 0; i < 60; i++) {
    pid_t p = fork();
    if (p == 0) {
      rounds = i * 500;
      start_thread(execs, NULL);
      for (;;) {
        getppid();
        if (i % 3 == 1) sched_yield();
        if (i % 3 == 2) usleep(1);
      }
    }
    check_exited(p, 5);
  }
  return guest_ok();
}
