// Ten processes with ten threads each at once, all exiting in their own way.
#include "../guest.h"

static int hold[2], up[2];

static void *body(void *arg) {
  char c;
  CHECK(write(up[1], "u", 1) == 1);
  CHECK(read(hold[0], &c, 1) == 0);
  return arg;
}

int main(void) {
  pid_t kids[10];
  CHECK(pipe(hold) == 0 && pipe(up) == 0);
  for (int k = 0; k < 10; k++) {
    kids[k] = fork();
    CHECK(kids[k] >= 0);
    if (kids[k] == 0) {
      close(hold[1]);
      pthread_t t[10];
      for (int i = 0; i < 10; i++) t[i] = start_thread(body, NULL);
      for (int i = 0; i < 10 && k % 2; i++) join_thread(t[i]);
      if (k == 0) raise(SIGKILL);
      if (k == 2) exit(2);
      for (int i = 0; i < 10 && k % 2 == 0; i++) join_thread(t[i]);
      _exit(k);
    }
  }
  char c;
  for (int i = 0; i < 80; i++) CHECK(read(up[0], &c, 1) == 1);
  CHECK(close(hold[1]) == 0);
  check_killed(kids[0], SIGKILL);
  for (int k = 1; k < 10; k++) check_exited(kids[k], k);
  printf("%d to %d\n", kids[0], kids[9]);
  return guest_ok();
}
