// Children that the program makes for its parent (CLONE_PARENT): they run and end, and are not its own. Whoever has started the program
// may not know of them.
#include "../guest.h"

int main(void) {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  for (int round = 0; round < 20; round++) {
    long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    CHECK(pid >= 0);
    if (pid == 0) {
      int self = getpid();
      _exit(write(pipes[1], &self, sizeof self) == sizeof self ? 0 : 1);
    }
    int told;
    CHECK(read(pipes[0], &told, sizeof told) == sizeof told);
    CHECK(told == pid);
    CHECK_ERRNO(waitpid(-1, NULL, 0), ECHILD);
  }
  return guest_ok();
}
