// A child is stopped and continued, as its parent sees, before and after its first checkpoint.
#include "../checkpoints/checkpoints.h"

static int seen[2];

// Until its parent has seen that it goes on.
static void stops(void) {
  char byte;
  CHECK(raise(SIGSTOP) == 0);
  CHECK(read(seen[0], &byte, 1) == 1);
}

static void stop_and_go_on(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(kill(child, SIGCONT) == 0);
  CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
  CHECK(write(seen[1], "", 1) == 1);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  CHECK(pipe(seen) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    stops();
    bis_handle handle = 0;
    int result = bis_checkpoint(&handle);
    CHECK(result >= 0 || result == -ENOSYS);
    if (result == 0) {
      CHECK(bis_rollback(handle, BIS_RETRY) != 0);
      _exit(1);
    }
    stops();
    _exit(7);
  }
  stop_and_go_on(child);
  stop_and_go_on(child);
  check_exited(child, 7);
  return guest_ok();
}
