// Forks of many threads, interrupted by the ends of one another's children and made again: each child has the memory
// of one moment, whatever the other threads do meanwhile.
#include "../guest.h"

static volatile unsigned steps, sums;

static void *body(void *arg) {
  for (int i = 0; i < 12; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit((int)((steps * 3 + sums) & 127)); // the same in replay
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    steps++;
    sums += (unsigned)WEXITSTATUS(status);
    usleep(1);
    steps++;
  }
  return arg;
}

int main(void) {
  pthread_t t[8];
  for (int i = 0; i < 8; i++) t[i] = start_thread(body, NULL);
  for (int i = 0; i < 8; i++) join_thread(t[i]);
  CHECK_ERRNO(wait(NULL), ECHILD);
  printf("%u steps\n", steps);
  return guest_ok();
}
