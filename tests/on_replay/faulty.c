// A loop that spoils its sum at one step, sees that, and asks for a replay. With an argument it waits for a line of
// input before; with another one, it has a checkpoint around that, and asks for a replay since each of them.
#include "../../include/bis.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long sum;

__attribute__((noinline)) static void add(int step, int value) {
  for (volatile int i = 0; i < 3000000; i++) {
  }
  sum += step == 7 ? -value : value;
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  bis_handle around = 0, before = 0;
  int is_nested = argc > 1 && strcmp(argv[1], "nested") == 0;
  if (is_nested) {
    bis_checkpoint(&around);
    sum = 1000;
    add(1, -1000);
  }
  int tries = bis_checkpoint(&before);
  long right = 0;
  for (int step = 0; step < 12; step++) {
    add(step, step + tries);
    right += step + tries;
    printf(".");
  }
  printf("%d: the sum is %s\n", getpid() > 0 ? tries : 0, sum == right ? "right" : "wrong");
  if (argc > 1 && strcmp(argv[1], "wait") == 0) {
    char line[16];
    if (read(0, line, sizeof line) <= 0) return 1;
  }
  int result = bis_rollback(before, BIS_REPLAY);
  printf("%d: result %d, how %d\n", tries, result, bis_how(before));
  if (is_nested) {
    result = bis_rollback(around, BIS_REPLAY);
    printf("%d: around it %d, how %d\n", tries, result, bis_how(around));
  }
  if (tries < 1) bis_rollback(before, BIS_RETRY);
  printf("end\n");
  return 0;
}
