// steps:
// Children that compute and make no call, killed by their parent: by SIGKILL, and by SIGTERM without a handler.
#include "../guest.h"

int main(void) {
  static const int signals[] = {SIGKILL, SIGTERM, SIGKILL, SIGINT};
  // Whoever started this may have had it ignored.
  CHECK(signal(SIGINT, SIG_DFL) != SIG_ERR);
  volatile unsigned *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  for (int i = 0; i < 4; i++) {
    pid_t p = fork();
    CHECK(p >= 0);
    if (p == 0) {
      volatile unsigned long here = 0;
      for (;;) {
        here++;
        // Half of them are seen from outside.
        if (i >= 2) shared[i] = (unsigned)here;
      }
    }
    sleep_ms(30);
    CHECK(kill(p, signals[i]) == 0);
    check_killed(p, signals[i]);
    printf("%d: counted to %u\n", i, shared[i]);
  }
  return guest_ok();
}
