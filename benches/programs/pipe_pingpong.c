// Two processes hand a number to and fro over two pipes; each waits in read for the other.
// usage: pipe_pingpong TURNS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  long turns = argc > 1 ? atol(argv[1]) : 100000;
  int there[2], back[2];
  if (pipe(there) != 0 || pipe(back) != 0) return perror("pipe"), 1;
  pid_t child = fork();
  if (child < 0) return perror("fork"), 1;
  uint64_t ball = 0;
  if (child == 0) {
    close(there[1]);
    close(back[0]);
    while (read(there[0], &ball, sizeof ball) == sizeof ball) {
      ball = ball * 3 + 1;
      if (write(back[1], &ball, sizeof ball) != sizeof ball) _exit(1);
    }
    _exit(0);
  }
  close(there[0]);
  close(back[1]);
  for (long i = 0; i < turns; i++) {
    ball += i;
    if (write(there[1], &ball, sizeof ball) != sizeof ball) return perror("write"), 1;
    if (read(back[0], &ball, sizeof ball) != sizeof ball) return perror("read"), 1;
  }
  close(there[1]);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) return fprintf(stderr, "the child failed\n"), 1;
  printf("%ld turns, %016llx\n", turns, (unsigned long long)ball);
  return 0;
}
