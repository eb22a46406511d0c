// vfork: the parent waits, memory is shared until exec or exit; twenty times; also posix_spawn.
#include "../guest.h"
#include <spawn.h>

extern char **environ;

int main(int argc, char **argv) {
  if (argc > 1) return atoi(argv[1]);
  volatile int shared = 0;
  for (int i = 0; i < 20; i++) {
    pid_t p = vfork();
    if (p == 0) {
      shared++;
      _exit(i);
    }
    CHECK(p > 0 && shared == i + 1);
    check_exited(p, i);
  }
  for (int i = 0; i < 3; i++) {
    char code[16];
    snprintf(code, sizeof code, "%d", 20 + i);
    pid_t p = vfork();
    if (p == 0) {
      shared = 100 + i;
      execl("/proc/self/exe", "again", code, NULL);
      _exit(99);
    }
    CHECK(shared == 100 + i);
    check_exited(p, 20 + i);
  }
  pid_t p = vfork();
  if (p == 0) {
    execl("/nonexistent", "x", NULL);
    _exit(errno == ENOENT ? 77 : 78);
  }
  check_exited(p, 77);
  char *args[] = {"spawned", "33", NULL};
  CHECK(posix_spawn(&p, "/proc/self/exe", NULL, NULL, args, environ) == 0);
  check_exited(p, 33);
  CHECK(posix_spawn(&p, "/nonexistent", NULL, NULL, args, environ) == ENOENT);
  printf("%d\n", p);
  return guest_ok();
}
