// A sleep that signals interrupt which are ignored: it goes on, and ends as if there had been none. But the kernel may have
// written how much was left each time, and what is in memory then is the same in a replay.
#include "../guest.h"

int main(void) {
  pid_t program = getpid(), pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    for (int i = 0; i < 10; i++) {
      sleep_ms(2);
      CHECK(kill(program, SIGURG) == 0);
    }
    _exit(0);
  }
  struct timespec left = {.tv_nsec = 40000000}, other = {.tv_nsec = 30000000}, rest = {.tv_sec = 77};
  CHECK(nanosleep(&left, &left) == 0);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &other, &rest) == 0);
  check_exited(pid, 0);
  printf("%ld.%09ld and %ld.%09ld\n", (long)left.tv_sec, left.tv_nsec, (long)rest.tv_sec, rest.tv_nsec);
  return guest_ok();
}
