// A program that has no descriptor left makes threads, forks (the child forks, too), and executes itself.
// cflags: -static
#include "../guest.h"
#include <sys/resource.h>

static void *count(void *arg) { return (void *)((intptr_t)arg + 1); }

int main(int argc, char **argv) {
  if (argc > 1) {
    CHECK(dup(0) == -1 && errno == EMFILE && getppid() > 0 && now_ns() > 0);
    pid_t pid = fork();
    if (pid == 0) _exit(7);
    check_exited(pid, 7);
    puts("executed without a descriptor");
    return 6;
  }
  struct rlimit few = {20, 20};
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  while (dup(0) >= 0) {
  }
  CHECK(errno == EMFILE);
  void *result;
  CHECK(pthread_join(start_thread(count, (void *)4), &result) == 0 && (intptr_t)result == 5);
  pid_t pid = fork();
  if (pid == 0) {
    pid_t child = fork();
    if (child == 0) {
      CHECK(close(19) == 0 && dup(0) == 19);
      _exit(3);
    }
    check_exited(child, 3);
    fflush(stdout);
    execv(argv[0], (char *[]){argv[0], "again", NULL});
    _exit(1);
  }
  check_exited(pid, 6);
  return guest_ok();
}
