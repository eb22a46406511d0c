// A stop that SIGCONT takes back at once, of a process that begins, or executes a program, right then: it goes on each time.
#include "../guest.h"

enum { PAIRS = 120 };

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
    // Its standard input ends when all has been sent.
    CHECK(read(0, &byte, 1) == 0);
    return 7;
  }
  int told[2], asked[2];
  CHECK(pipe(told) == 0);
  for (int i = 0; i < PAIRS; i++) {
    CHECK(pipe(asked) == 0);
    pid_t child = fork();
    if (child == 0) {
      CHECK(dup2(asked[0], 0) == 0 && close(asked[0]) == 0 && close(asked[1]) == 0);
      executes(told[1], i % 9 * 40000);
    }
    close(asked[0]);
    // Some before it has begun at all.
    if (i % 4) CHECK(read(told[0], &byte, 1) == 1);
    for (volatile int n = i % 7 * 20000; n > 0; n--);
    CHECK(kill(child, SIGSTOP) == 0);
    for (volatile int n = i % 11 * 1000; n > 0; n--);
    CHECK(kill(child, SIGCONT) == 0);
    if (i % 4 == 0) CHECK(read(told[0], &byte, 1) == 1);
    close(asked[1]);
    check_exited(child, 7);
  }
  return guest_ok();
}
