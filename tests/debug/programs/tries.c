#include "../../../include/bis.h"
#include <stdio.h>

static int word, tries;

static void set(int value) { word = value; }

static void attempt(bis_handle before) {
  set(10 + tries);
  if (tries < 2) bis_rollback(before, BIS_RETRY);
}

int main(void) {
  bis_handle before = 0;
  tries = bis_checkpoint(&before);
  attempt(before);
  printf("end %d %d\n", tries, word);
  return 0;
}
