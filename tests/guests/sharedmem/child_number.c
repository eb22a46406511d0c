// A child's number is written to memory that its maker shares with a third process, which looks out for it without a call.
#include "../guest.h"
#include <sched.h>

static void make_child(volatile int *number) {
  long child = syscall(SYS_clone, CLONE_CHILD_SETTID | SIGCHLD, 0, 0, number, 0);
  CHECK(child >= 0);
  if (child == 0) _exit(7);
  check_exited((pid_t)child, 7);
  _exit(*number == child ? 0 : 1);
}

int main(void) {
  volatile int *number = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(number != MAP_FAILED);
  unsigned long looks = 0;
  for (int round = 0; round < 8; round++) {
    *number = 0;
    pid_t maker = fork();
    CHECK(maker >= 0);
    if (maker == 0) make_child(number);
    while (*number == 0) looks++;
    check_exited(maker, 0);
  }
  printf("%lu looks\n", looks);
  return guest_ok();
}
