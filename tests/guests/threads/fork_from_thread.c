// Threads that fork at the same time, each waiting for its own child.
#include "../guest.h"

static void *body(void *arg) {
  long me = (long)arg;
  for (int i = 0; i < 5; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      CHECK(tid_self() == getpid());
      _exit((int)me * 10 + i);
    }
    check_exited(pid, (int)me * 10 + i);
  }
  return NULL;
}

int main(void) {
  pthread_t t[4];
  for (long i = 0; i < 4; i++) t[i] = start_thread(body, (void *)i);
  for (int i = 0; i < 4; i++) join_thread(t[i]);
  CHECK_ERRNO(wait(NULL), ECHILD);
  printf("%d had 20 children\n", getpid());
  return guest_ok();
}
