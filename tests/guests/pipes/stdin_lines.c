// stdin: one line from the outside
// Reads its standard input to the end.
#include "../guest.h"

int main(void) {
  char line[100];
  CHECK(fgets(line, sizeof line, stdin) && strcmp(line, "one line from the outside\n") == 0);
  CHECK(fgets(line, sizeof line, stdin) == NULL && feof(stdin));
  fprintf(stderr, "read it on descriptor %d\n", fileno(stdin));
  return guest_ok();
}
