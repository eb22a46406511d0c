// What it costs that calls are logged, as in Figures 5 to 7 of the Flashback paper: reads, whose bytes are in the log, and writes,
// of which it has only the results.
// usage: logged_calls read|write FILE CALLS BYTES
// Prints how many microseconds all of the calls took.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  int reads = strcmp(argv[1], "read") == 0;
  int fd = open(argv[2], reads ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600);
  long calls = atol(argv[3]), bytes = atol(argv[4]);
  char *buffer = malloc(bytes);
  memset(buffer, 'x', bytes);
  if (fd < 0) return 1;
  double begun = now();
  for (long i = 0; i < calls; i++) {
    ssize_t count = reads ? read(fd, buffer, bytes) : write(fd, buffer, bytes);
    // The file is there once, and goes by again and again.
    if (count == 0 && lseek(fd, 0, SEEK_SET) == 0) count = read(fd, buffer, bytes);
    if (count <= 0) return 1;
    if (!reads && i % 4096 == 4095 && lseek(fd, 0, SEEK_SET) != 0) return 1;
  }
  printf("%.0f\n", now() - begun);
  return 0;
}
