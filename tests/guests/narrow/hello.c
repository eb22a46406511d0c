// cflags: -m32
// needs: /usr/lib32/crt1.o
// Arguments and environment arrive in a 32-bit program that another one executes.
#include "../guest.h"

extern char **environ;

int main(int argc, char **argv) {
  CHECK(sizeof(void *) == 4 && sizeof(long) == 4);
  if (argc == 1) {
    char *args[] = {"hello", "one", "two words", "", NULL};
    char *env[] = {"NAME=value", "EMPTY=", NULL};
    execve("/proc/self/exe", args, env);
    CHECK(!"execve returned");
  }
  for (int i = 0; i < argc; i++) printf("argument %d: \"%s\"\n", i, argv[i]);
  for (char **at = environ; *at; at++) printf("environment: %s\n", *at);
  CHECK(argc == 4 && strcmp(argv[2], "two words") == 0 && argv[3][0] == 0);
  CHECK(strcmp(getenv("NAME"), "value") == 0 && getenv("EMPTY")[0] == 0 && !getenv("PATH"));
  return guest_ok();
}
