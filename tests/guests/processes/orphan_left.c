// The first process ends while a grandchild is still at work; its output comes after.
#include "../guest.h"

int main(void) {
  int ready[2];
  char c;
  CHECK(pipe(ready) == 0);
  if (fork() == 0) {
    CHECK(write(ready[1], "r", 1) == 1);
    close(ready[1]);
    sleep_ms(50);
    make_file("late", "done", 4);
    _exit(0);
  }
  CHECK(read(ready[0], &c, 1) == 1);
  printf("%d leaves first\n", getpid());
  return guest_ok();
}
