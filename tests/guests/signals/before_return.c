// A signal that was sent before what a call tells of is handled before the call returns: SIGCHLD and a wait, a signal
// during a vfork, and one that somebody sent before he made a file that is looked out for.
#include "../guest.h"

static volatile int caught;
static void catch(int sig) { caught = sig; }

int main(void) {
  on_signal(SIGCHLD, catch, SA_RESTART);
  on_signal(SIGUSR1, catch, SA_RESTART);
  pid_t me = getpid();
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
  for (int i = 0; i < 5; i++) {
    caught = 0;
    pid_t child = vfork();
    if (child == 0) {
      kill(me, SIGUSR1);
      _exit(i);
    }
    CHECK(caught != 0);
    check_exited(child, i);
  }
  signal(SIGCHLD, SIG_DFL);
  for (int i = 0; i < 50; i++) {
    struct stat st;
    caught = 0;
    pid_t child = fork();
    if (child == 0) {
      kill(me, SIGUSR1);
      make_file("made", "", 0);
      _exit(0);
    }
    while (stat("made", &st) == -1) CHECK(errno == ENOENT);
    CHECK(caught == SIGUSR1);
    check_exited(child, 0);
    CHECK(unlink("made") == 0);
  }
  return guest_ok();
}
