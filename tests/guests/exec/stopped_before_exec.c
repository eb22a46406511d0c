// A stop of a process that has memory which others could share, and that executes a program right then: the process stops, on one side
// of the exec or the other, and goes on when it is told to.
#include "../guest.h"

enum { STOPS = 120 };

static char **args;

// Computes for a while without a call, and executes this guest.
static void executes(int tells, int rounds) {
  volatile long *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  CHECK(write(tells, "g", 1) == 1);
  for (volatile int n = 0; n < rounds; n++) shared[0]++;
  execl("/proc/self/exe", args[0], "asks", NULL);
  _exit(99);
}

int main(int argc, char **argv) {
  char byte;
  args = argv;
  if (argc > 1) {
    // Its standard input ends when it has been stopped, and gone on.
    CHECK(read(0, &byte, 1) == 0);
    return 7;
  }
  int told[2], asked[2], status;
  CHECK(pipe(told) == 0);
  for (int i = 0; i < STOPS; i++) {
    int signal = i % 2 ? SIGTSTP : SIGSTOP;
    CHECK(pipe(asked) == 0);
    pid_t child = fork();
    if (child == 0) {
      // Not of the group of the guest: a stop of the terminal's kind does nothing to an orphaned group.
      setpgid(0, 0);
      CHECK(dup2(asked[0], 0) == 0 && close(asked[0]) == 0 && close(asked[1]) == 0);
      executes(told[1], i % 9 * 40000);
    }
    close(asked[0]);
    CHECK(read(told[0], &byte, 1) == 1);
    for (volatile int n = i % 7 * 20000; n > 0; n--);
    CHECK(kill(child, signal) == 0);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == signal);
    CHECK(kill(child, SIGCONT) == 0);
    CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    close(asked[1]);
    check_exited(child, 7);
  }
  return guest_ok();
}
