// A tree of processes three deep and three wide; each reports to the root over one pipe and exits with its own code.
#include "../guest.h"

static int report[2];

static int grow(int depth, int index) {
  pid_t kids[3];
  if (depth < 3)
    for (int i = 0; i < 3; i++) {
      kids[i] = fork();
      CHECK(kids[i] >= 0);
      if (kids[i] == 0) _exit(grow(depth + 1, index * 3 + i));
    }
  int line[3] = {getpid(), getppid(), depth};
  CHECK(write(report[1], line, sizeof line) == sizeof line);
  if (depth < 3)
    for (int i = 0; i < 3; i++) check_exited(kids[i], (index * 3 + i) % 100);
  return index % 100;
}

int main(void) {
  CHECK(pipe(report) == 0);
  grow(0, 0);
  CHECK(close(report[1]) == 0);
  int line[3], count = 0, deep = 0;
  uint64_t sum = 0;
  while (read(report[0], line, sizeof line) == sizeof line) {
    count++;
    deep += line[2] == 3;
    sum += (uint64_t)line[0] * line[1];
  }
  CHECK(count == 40 && deep == 27);
  printf("root %d, sum %lu\n", getpid(), sum);
  return guest_ok();
}
