// A daemon: a child of a child that has ended. Its parent is another process than whoever has started the program, and it sees that by
// asking again and again.
#include "../guest.h"

int main(void) {
  pid_t starter = getppid(), program = getpid();
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    pid_t middle = getpid();
    CHECK(getppid() == program);
    pid_t daemon = fork();
    if (daemon != 0) _exit(daemon > 0 ? 0 : 1);
    close(ends[0]);
    CHECK(setsid() == getpid());
    while (getppid() == middle) sched_yield();
    pid_t parent = getppid();
    CHECK(parent != starter && parent != middle && parent != program);
    CHECK(parent == getppid() && syscall(SYS_getppid) == parent);
    CHECK(write(ends[1], &parent, sizeof parent) == sizeof parent);
    _exit(0);
  }
  check_exited(child, 0);
  close(ends[1]);
  pid_t parent;
  CHECK(read(ends[0], &parent, sizeof parent) == sizeof parent);
  CHECK(read(ends[0], &parent, 1) == 0);
  printf("the orphan's parent is %d\n", parent);
  CHECK(getppid() == starter);
  return guest_ok();
}
