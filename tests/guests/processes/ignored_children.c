// SIGCHLD ignored, or SA_NOCLDWAIT: no zombies; wait blocks until all are gone and says ECHILD.
#include "../guest.h"

int main(void) {
  int status;
  for (int round = 0; round < 2; round++) {
    struct sigaction sa = {.sa_handler = round ? SIG_DFL : SIG_IGN, .sa_flags = round ? SA_NOCLDWAIT : 0};
    CHECK(sigaction(SIGCHLD, &sa, NULL) == 0);
    pid_t last = 0;
    for (int i = 0; i < 5; i++) {
      last = fork();
      CHECK(last >= 0);
      if (last == 0) {
        usleep(1000 * (unsigned)i);
        _exit(i);
      }
    }
    CHECK_ERRNO(wait(&status), ECHILD);
    // The kernel wakes who waits before it takes the last child out of its table.
    while (kill(last, 0) == 0)
      sched_yield();
    CHECK(errno == ESRCH);
    printf("round %d: %d\n", round, last);
  }
  return guest_ok();
}
