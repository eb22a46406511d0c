// Reads one byte at a time from /dev/zero: the smallest call that has an output.
// usage: read1 TIMES
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  long times = argc > 1 ? atol(argv[1]) : 1000000, zeros = 0;
  int zero = open("/dev/zero", O_RDONLY);
  if (zero < 0) return perror("/dev/zero"), 1;
  for (long i = 0; i < times; i++) {
    char byte = 1;
    if (read(zero, &byte, 1) != 1) return perror("read"), 1;
    zeros += byte == 0;
  }
  printf("%ld zeros\n", zeros);
  return zeros == times ? 0 : 1;
}
