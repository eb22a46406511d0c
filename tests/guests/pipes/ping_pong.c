// Two processes and then two threads pass a number back and forth 300 times.
#include "../guest.h"

static int there[2], back[2];

static void *echo(void *arg) {
  int v;
  for (int i = 0; i < 300; i++) {
    CHECK(read(there[0], &v, 4) == 4);
    v += 2;
    CHECK(write(back[1], &v, 4) == 4);
  }
  return arg;
}

static void drive(void) {
  int v = 0;
  for (int i = 0; i < 300; i++) {
    v++;
    CHECK(write(there[1], &v, 4) == 4 && read(back[0], &v, 4) == 4);
  }
  CHECK(v == 900);
}

int main(void) {
  CHECK(pipe(there) == 0 && pipe(back) == 0);
  pid_t p = fork();
  if (p == 0) {
    echo(NULL);
    _exit(0);
  }
  drive();
  check_exited(p, 0);
  pthread_t t = start_thread(echo, NULL);
  drive();
  join_thread(t);
  printf("%d\n", p);
  return guest_ok();
}
