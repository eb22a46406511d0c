// The kernel sends SIGCHLD before it lets a wait return: its handler has run when the program goes on.
#include "../guest.h"

static volatile int caught;
static void catch(int sig) { caught = sig; }

int main(void) {
  on_signal(SIGCHLD, catch, SA_RESTART);
  for (int i = 0; i < 20; i++) {
    caught = 0;
    pid_t child = fork();
    if (child == 0) _exit(i);
    if (i % 2) {
      siginfo_t info;
      CHECK(waitid(P_PID, child, &info, WEXITED) == 0 && info.si_status == i);
    } else {
      int status;
      CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == i);
    }
    CHECK(caught == SIGCHLD);
  }
  return guest_ok();
}
