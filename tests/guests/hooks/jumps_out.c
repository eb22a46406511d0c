// A handler that does not return: it jumps out of the call that it has interrupted, one that waits and ones that do not.
#include "../guest.h"
#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf where;
static volatile int jumps;

static void handler(int sig) {
  (void)sig;
  jumps++;
  siglongjmp(where, 1);
}

int main(void) {
  on_signal(SIGALRM, handler, SA_RESTART);
  int p[2];
  CHECK(pipe(p) == 0);
  char buf[64];
  // Out of a read that would wait for ever.
  for (int i = 0; i < 5; i++) {
    struct itimerval once = {.it_value.tv_usec = 2000};
    if (sigsetjmp(where, 1) == 0) {
      CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
      read(p[0], buf, sizeof buf);
      CHECK(!"came back");
    }
    CHECK(jumps == i + 1);
    // All is as it was: the next call is whole.
    CHECK(write(p[1], "left", 4) == 4 && read(p[0], buf, sizeof buf) == 4 && memcmp(buf, "left", 4) == 0);
  }
  // Out of whatever it is in, again and again.
  volatile uint64_t rounds = 0, nested = 0;
  jumps = 0;
  // Once only, and again after the jump: where calls are slow, the next would come before the jump is made, and the one after
  // that before the jump out of its handler, until the stack is full.
  sigsetjmp(where, 1);
  struct itimerval soon = {.it_value.tv_usec = 700};
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
  while (jumps < 60) {
    int fd = open("/dev/null", O_WRONLY);
    CHECK(fd >= 0);
    for (int i = 0; i < 20; i++) {
      CHECK(write(fd, "x", 1) == 1);
      CHECK(getppid() > 0);
      rounds++;
    }
    CHECK(close(fd) == 0);
    nested++;
  }
  CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
  printf("%lu %lu\n", rounds, nested);
  return guest_ok();
}
