// A program that reads its own text, written at run time, after each run of it under a timer: a breakpoint that replay
// puts there must not be seen.
#include "loops.h"
#include <sys/time.h>

static volatile sig_atomic_t came;
static void handler(int sig) {
  (void)sig;
  came++;
}

int main(void) {
  unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  uint64_t hash = 0;
  for (int i = 0; i < 20; i++) {
    write_loop(code, (unsigned)i, i % 9);
    CHECK(((Loop)code)(5000) == 5000ul * (unsigned)i);
    hash = hash * 31 + digest(code, PAGE);
  }
  int before = came;
  while (came < before + 3) {
    ((Loop)code)(50);
    hash = hash * 31 + digest(code, PAGE);
  }
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  printf("%d signals, code %#lx\n", came, hash);
  return guest_ok();
}
