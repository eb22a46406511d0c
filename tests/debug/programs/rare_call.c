// A million system calls by a hook, and in the middle of them another one.
#include <stdio.h>
#include <unistd.h>

enum { CALLS = 1000000 };

int made;

static void many(void) {
  for (int i = 0; i < CALLS; i++, made++) getppid();
}

int main(void) {
  many();
  pid_t group = getpgid(0);
  many();
  printf("%d\n", group > 0);
  return 0;
}
