// A profiler (py-spy): attaches to a process while that computes and makes calls, reads its memory, and lets it go, again and again.
#include "../guest.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { ROUNDS = 40 };

static volatile long rounds;

static void compute(void) {
  unsigned sum = 0;
  for (;;) {
    for (int i = 0; i < 20000; i++) sum = sum * 31 + i;
    char *page = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    *page = (char)sum;
    CHECK(munmap(page, 16 * PAGE) == 0);
    rounds++;
    if (rounds % 7 == 0) getppid();
  }
}

int main(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) compute();
  long before = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int status;
    usleep(2000);
    if (round % 2) {
      CHECK(ptrace(PTRACE_ATTACH, child, 0, 0) == 0);
    } else {
      CHECK(ptrace(PTRACE_SEIZE, child, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, child, 0, 0) == 0);
    }
    CHECK(waitpid(child, &status, __WALL) == child && WIFSTOPPED(status));
    long now = -1;
    struct iovec to = {&now, sizeof now}, from = {(void *)&rounds, sizeof rounds};
    CHECK(process_vm_readv(child, &to, 1, &from, 1, 0) == sizeof now && now >= before);
    before = now;
    CHECK(ptrace(PTRACE_DETACH, child, 0, 0) == 0);
  }
  printf("%s\n", before > 0 ? "it has come on" : "it has not");
  CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
  return guest_ok();
}
