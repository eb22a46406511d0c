// status: 138
// A signal that comes while its handler is there, and is taken when it is not, ends the process.
#include "../guest.h"

static void handler(int sig) { (void)sig; }

int main(void) {
  int go[2];
  char c;
  CHECK(pipe(go) == 0);
  on_signal(SIGUSR1, handler, 0);
  pid_t parent = getpid();
  pid_t child = fork();
  if (child == 0) {
    CHECK(read(go[0], &c, 1) == 1);
    // The parent computes now, until the signal has come, and longer.
    kill(parent, SIGUSR1);
    _exit(0);
  }
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  CHECK(write(go[1], "g", 1) == 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  signal(SIGUSR1, SIG_DFL);
  printf("guest ok\n");
  fflush(stdout);
  CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
  return 1;
}
