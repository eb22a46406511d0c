// A process that is killed while it makes threads: of the last one, nobody may ever be told.
#include "../guest.h"

static void *nothing(void *arg) {
  return arg;
}

int main(void) {
  for (int i = 0; i < 60; i++) {
    int up[2];
    char c;
    CHECK(pipe(up) == 0);
    pid_t child = fork();
    if (child == 0) {
      CHECK(write(up[1], "r", 1) == 1);
      for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_detach(thread);
      }
    }
    CHECK(read(up[0], &c, 1) == 1);
    usleep((useconds_t)(i * 37 % 1000));
    CHECK(kill(child, SIGKILL) == 0);
    check_killed(child, SIGKILL);
    close(up[0]), close(up[1]);
  }
  return guest_ok();
}
