// Children of fork and vfork, programs that they exec, and threads of each read the counter and the clock, while their parents
// do.
#include "counter.h"

static void *body(void *arg) {
  int64_t before = now_ns();
  uint64_t mixed = read_often(200) ^ (uintptr_t)arg;
  CHECK(now_ns() >= before);
  return (void *)mixed;
}

int main(int argc, char **argv) {
  int depth = argc > 1 ? atoi(argv[1]) : 3;
  pthread_t thread = start_thread(body, argv);
  uint64_t here = (uint64_t)body(NULL);
  if (depth > 0) {
    pid_t pid = depth % 2 ? fork() : vfork();
    CHECK(pid >= 0);
    if (pid == 0) {
      if (depth % 2) here ^= read_often(50);
      char next[8] = {'0' + depth - 1, 0};
      execl("/proc/self/exe", argv[0], next, NULL);
      _exit(3);
    }
    here ^= read_often(50);
    check_exited(pid, 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      printf("child at %d: %lx\n", depth, (uint64_t)join_thread(start_thread(body, &pid)));
      fflush(stdout);
      _exit(0);
    }
    check_exited(pid, 0);
  }
  printf("depth %d: %lx %lx\n", depth, here, (uint64_t)join_thread(thread));
  return argc > 1 ? 0 : guest_ok();
}
