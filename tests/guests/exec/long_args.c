// A hundred kilobytes in one argument, two thousand arguments, a large environment: all arrive whole.
#include "../guest.h"

int main(int argc, char **argv, char **envp) {
  if (argc > 1) {
    CHECK(argc == 2003 && strlen(argv[1]) == 100000);
    for (int i = 0; i < 2000; i++) CHECK(atoi(argv[i + 2]) == i);
    CHECK(strcmp(argv[2002], "") == 0);
    int n = 0;
    for (; envp[n]; n++) CHECK(strncmp(envp[n], "VARIABLE_", 9) == 0);
    CHECK(n == 500 && strlen(getenv("VARIABLE_499")) == 200);
    printf("strings up to %p\n", envp[499]);
    return guest_ok();
  }
  char **args = calloc(2004, sizeof *args), **vars = calloc(501, sizeof *vars);
  args[0] = argv[0];
  args[1] = malloc(100001);
  memset(args[1], 'q', 100000), args[1][100000] = 0;
  for (int i = 0; i < 2000; i++) CHECK(asprintf(&args[i + 2], "%d", i) > 0);
  args[2002] = "";
  for (int i = 0; i < 500; i++) CHECK(asprintf(&vars[i], "VARIABLE_%d=%0200d", i, i) > 0);
  execve("/proc/self/exe", args, vars);
  CHECK(!"exec came back");
}
