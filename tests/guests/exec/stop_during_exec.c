// A stop, a termination or a kill that arrives around the moment of exec takes effect, on one side of it or the other.
#include "../guest.h"

int main(int argc, char **argv) {
  if (argc > 1) {
    CHECK(write(1, "x", 0) == 0);
    for (;;) pause();
  }
  int p[2], status;
  char c;
  CHECK(pipe(p) == 0);
  int sigs[] = {SIGTSTP, SIGSTOP, SIGTERM, SIGKILL};
  for (int i = 0; i < 60; i++) {
    int sig = sigs[i % 4];
    pid_t pid = fork();
    if (pid == 0) {
      setpgid(0, 0);
      CHECK(write(p[1], "g", 1) == 1);
      execl("/proc/self/exe", argv[0], "wait", NULL);
      _exit(99);
    }
    CHECK(read(p[0], &c, 1) == 1);
    if (i % 3) usleep((useconds_t)(i * 20));
    CHECK(kill(pid, sig) == 0);
    if (i % 4 < 2) {
      CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == sig);
      CHECK(kill(pid, SIGCONT) == 0);
      CHECK(waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status));
      CHECK(kill(pid, SIGKILL) == 0);
      check_killed(pid, SIGKILL);
    } else {
      check_killed(pid, sig);
    }
  }
  printf("%d\n", getpid());
  return guest_ok();
}
