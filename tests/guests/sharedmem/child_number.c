// A child's number is written to memory that its maker, and a third process, share with it, and both look out for it without a call.
#include "../guest.h"
#include <sched.h>

struct numbers {
  volatile int child, seen, over;
};

int main(void) {
  struct numbers *numbers = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(numbers != MAP_FAILED);
  pid_t watcher = fork();
  CHECK(watcher >= 0);
  if (watcher == 0) {
    while (!numbers->over)
      if (numbers->child != numbers->seen) numbers->seen = numbers->child;
    _exit(0);
  }
  for (int round = 0; round < 20; round++) {
    numbers->child = 0;
    while (numbers->seen != 0) {}
    long child = syscall(SYS_clone, CLONE_CHILD_SETTID | SIGCHLD, 0, 0, &numbers->child, 0);
    CHECK(child >= 0);
    if (child == 0) _exit(7);
    while (numbers->seen != child) {}
    check_exited((pid_t)child, 7);
  }
  numbers->over = 1;
  check_exited(watcher, 0);
  return guest_ok();
}
