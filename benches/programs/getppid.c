// The smallest call of all: no arguments, no output, and the library keeps no copy of its answer.
// usage: getppid TIMES
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  long times = argc > 1 ? atol(argv[1]) : 1000000, same = 0;
  pid_t parent = getppid();
  for (long i = 0; i < times; i++) same += getppid() == parent;
  printf("%ld times the same\n", same);
  return same == times ? 0 : 1;
}
