// A thread executes a program while the first thread of its process makes other threads, one after the other: it may be killed in
// the middle of its clone, and what it has made has no maker then.
#include "../guest.h"

static void *ends(void *arg) { return arg; }

static void *executes(void *arg) {
  for (volatile long spin = 0; spin < *(long *)arg; spin++) {
  }
  execl("/proc/self/exe", "again", "5", NULL);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc > 1) return atoi(argv[1]);
  for (long round = 0; round < 30; round++) {
    pid_t p = fork();
    CHECK(p >= 0);
    if (p == 0) {
      long spin = round * 700;
      start_thread(executes, &spin);
      for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, ends, NULL) == 0) pthread_detach(thread);
      }
    }
    check_exited(p, 5);
  }
  return guest_ok();
}
