// Asks for the time, which natively is no system call at all (the vdso answers), and checks that it never goes back
// further than a clock may be set. usage: gettimeofday TIMES
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

int main(int argc, char **argv) {
  long times = argc > 1 ? atol(argv[1]) : 1000000;
  struct timeval first, now;
  if (gettimeofday(&first, NULL) != 0) return perror("gettimeofday"), 1;
  for (long i = 0; i < times; i++) {
    if (gettimeofday(&now, NULL) != 0) return perror("gettimeofday"), 1;
    if (now.tv_sec < first.tv_sec - 3600) return fprintf(stderr, "the clock went back\n"), 1;
  }
  printf("%ld times\n", times);
  return 0;
}
