// Executes itself where it has no descriptor left, and asks cpuid for the number of its core then.
#include <cpuid.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

unsigned told, recorded;

static void seen(void) { puts("seen"); }

int main(int argc, char **argv) {
  if (argc == 1) {
    struct rlimit few = {20, 20};
    setrlimit(RLIMIT_NOFILE, &few);
    while (dup(0) >= 0) {
    }
    execv(argv[0], (char *[]){argv[0], "again", NULL});
    return 1;
  }
  unsigned a, b, c, d, ends[2];
  close(18);
  close(19);
  __cpuid(1, a, b, c, d);
  told = b >> 24;
  // What comes through a pipe is what it was in the recording.
  if (pipe((int *)ends) || write((int)ends[1], &told, sizeof told) < 0 || read((int)ends[0], &recorded, sizeof told) < 0) return 2;
  seen();
  return 0;
}
