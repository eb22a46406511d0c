// An empty argv and a null environment: the kernel gives the program one empty argument.
#include "../guest.h"

int main(int argc, char **argv, char **envp) {
  if (argc > 1) return 1;
  if (argv[0] && argv[0][0] == 0) {
    CHECK(envp[0] == NULL && argc == 1);
    return guest_ok();
  }
  if (argc == 0) return guest_ok();
  static char *none[] = {NULL};
  printf("%d\n", getpid());
  syscall(SYS_execve, "/proc/self/exe", none, NULL);
  CHECK(!"exec came back");
}
