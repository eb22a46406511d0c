// Many numbers from the processor without a system call between them: in a loop, under a timer whose handler asks for some as
// well, in threads that take turns, in a forked child.
// hooked: nothing makes these instructions fault, so only text that is patched is recorded
#include "chance.h"

static volatile uint64_t of_handler, sum[4];
static volatile int ticks;

static void tick(int sig) {
  (void)sig;
  for (int i = 0; i < 10; i++) of_handler = of_handler * 31 + rdrand64();
  ticks++;
}

static uint64_t many(int n) {
  uint64_t h = 0;
  for (int i = 0; i < n; i++) h = h * 31 + rdrand64() + rdpid();
  return h;
}

static void *in_thread(void *arg) {
  int i = *(int *)arg;
  sum[i] = many(4000 * (i + 1));
  return arg;
}

static void try(void) { rdrand64(), rdpid(); }

int main(void) {
  if (!works(try)) {
    puts("the processor has no rdrand or no rdpid");
    return guest_ok();
  }
  printf("%lx\n", many(60000));
  int n[4] = {0, 1, 2, 3};
  pthread_t t[4];
  for (int i = 0; i < 4; i++) t[i] = start_thread(in_thread, &n[i]);
  for (int i = 0; i < 4; i++) join_thread(t[i]);
  for (int i = 0; i < 4; i++) printf("%lx\n", sum[i]);
  on_signal(SIGALRM, tick, 0);
  struct itimerspec every = {{0, 2000000}, {0, 2000000}};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_settime(timer, 0, &every, NULL) == 0);
  uint64_t h = 0;
  for (int i = 0; i < 200 && ticks < 5; i++) h += many(500);
  CHECK(timer_delete(timer) == 0);
  printf("%lx %lx %d\n", h, of_handler, ticks);
  pid_t p = fork();
  if (p == 0) {
    printf("child %lx\n", many(1000));
    _exit(4);
  }
  check_exited(p, 4);
  return guest_ok();
}
