// execve of itself with arguments and environment, three generations; memory is new, the pid stays.
#include "../guest.h"

int main(int argc, char **argv, char **envp) {
  int generation = argc > 1 ? atoi(argv[1]) : 0;
  static int fresh;
  CHECK(fresh == 0);
  fresh = 1;
  if (generation > 0) {
    CHECK(argc == 3 && atoi(argv[2]) == getpid());
    CHECK(strcmp(getenv("GENERATION"), argv[1]) == 0 && envp[1] == NULL);
  }
  printf("generation %d in %d, stack at %p\n", generation, getpid(), &generation);
  if (generation == 3) return guest_ok();
  char next[16], pid[16], env[32];
  snprintf(next, sizeof next, "%d", generation + 1);
  snprintf(pid, sizeof pid, "%d", getpid());
  snprintf(env, sizeof env, "GENERATION=%d", generation + 1);
  char *args[] = {argv[0], next, pid, NULL}, *vars[] = {env, NULL};
  execve("/proc/self/exe", args, vars);
  CHECK(!"execve came back");
}
