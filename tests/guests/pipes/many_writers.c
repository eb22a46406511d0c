// Ten processes write 200 lines each into one pipe: lines stay whole, each writer's are in order.
#include "../guest.h"

int main(void) {
  int p[2], next[10] = {0}, last = -1, switches = 0;
  CHECK(pipe(p) == 0);
  for (int i = 0; i < 10; i++) {
    if (fork() == 0) {
      for (int j = 0; j < 200; j++) CHECK(dprintf(p[1], "%02d %03d\n", i, j) == 7);
      _exit(0);
    }
  }
  CHECK(close(p[1]) == 0);
  FILE *f = fdopen(p[0], "r");
  int who, what, lines = 0;
  while (fscanf(f, "%d %d", &who, &what) == 2) {
    CHECK(who >= 0 && who < 10 && what == next[who]);
    next[who]++, lines++;
    switches += who != last;
    last = who;
  }
  CHECK(lines == 2000);
  for (int i = 0; i < 10; i++) CHECK(wait(NULL) > 0);
  printf("the writer changed %d times\n", switches);
  return guest_ok();
}
