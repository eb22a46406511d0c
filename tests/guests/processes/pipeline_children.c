// A hundred short-lived children, eight at a time, each with a message through a shared pipe.
#include "../guest.h"

int main(void) {
  int p[2], status;
  CHECK(pipe(p) == 0);
  int alive = 0, done = 0, started = 0;
  uint64_t sum = 0;
  while (done < 100) {
    while (alive < 8 && started < 100) {
      pid_t pid = fork();
      CHECK(pid >= 0);
      if (pid == 0) {
        int m[2] = {getpid(), started};
        CHECK(write(p[1], m, sizeof m) == sizeof m);
        _exit(started % 64);
      }
      started++, alive++;
    }
    int m[2];
    CHECK(read(p[0], m, sizeof m) == sizeof m);
    CHECK(waitpid(m[0], &status, 0) == m[0] && WIFEXITED(status) && WEXITSTATUS(status) == m[1] % 64);
    sum += (uint64_t)m[0];
    alive--, done++;
  }
  printf("pids add up to %lu\n", sum);
  return guest_ok();
}
