// A buffer is filled from a file of which bis makes the content by itself, and is changed after that.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

char buffer[64];
int passed;

__attribute__((noinline)) void step(int n) { passed = n; }

int main(void) {
  // So often that the calls are made in hooks.
  char path[4096];
  int own = open("/proc/self/exe", O_RDONLY);
  for (int i = 0; i < 20; i++)
    if (read(own, buffer, 1) != 1 || pread(own, buffer, 1, 0) != 1 || !getcwd(path, sizeof path)) return 1;
  buffer[0] = 0;
  int fd = open("/proc/self/stat", O_RDONLY);
  step(1);
  if (read(fd, buffer, 8) != 8) return 1;
  step(2);
  buffer[0] = 'x';
  step(3);
  buffer[0] = 'y';
  step(4);
  if (!getcwd(path, sizeof path)) return 1;
  if (pread(fd, buffer + 32, 8, 0) != 8) return 1;
  step(5);
  if (!getcwd(path, sizeof path)) return 1;
  return snprintf(buffer + 32, 16, "%d", passed) != 1;
}
