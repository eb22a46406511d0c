// Hundreds of processes are there at once, and sleep until all of them have begun.
#include "../guest.h"

enum { PROCESSES = 500 };

int main(void) {
  int begun[2], go[2];
  CHECK(pipe(begun) == 0 && pipe(go) == 0);
  pid_t children[PROCESSES];
  for (int i = 0; i < PROCESSES; i++)
    if ((children[i] = fork()) == 0) {
      char c = 'x';
      CHECK(close(go[1]) == 0 && write(begun[1], &c, 1) == 1);
      // Until nobody can write any more.
      CHECK(read(go[0], &c, 1) == 0);
      _exit(i % 100);
    }
  for (int i = 0; i < PROCESSES; i++) {
    char c;
    CHECK(children[i] > 0 && read(begun[0], &c, 1) == 1 && c == 'x');
  }
  CHECK(close(go[1]) == 0);
  for (int i = 0; i < PROCESSES; i++) check_exited(children[i], i % 100);
  printf("%d processes\n", PROCESSES);
  return guest_ok();
}
