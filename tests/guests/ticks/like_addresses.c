// A number that looks like the address of memory which only a recorder has: no place in this loop can be told by what lies there.
#include "../guest.h"
#include <sys/time.h>

static volatile sig_atomic_t came;

static void handler(int sig) {
  (void)sig;
  came++;
}

// A call that may block gets its scratch memory while others run.
static void *wait_for_it(void *arg) {
  char buf[4096];
  CHECK(read(*(int *)arg, buf, sizeof buf) == 1);
  return NULL;
}

int main(void) {
  int p[2];
  CHECK(pipe(p) == 0);
  // The thread that waits is not to take the signal.
  sigset_t alarm;
  sigemptyset(&alarm), sigaddset(&alarm, SIGALRM);
  CHECK(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
  pthread_t thread = start_thread(wait_for_it, p);
  CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL) == 0);
  sleep_ms(20);
  struct itimerval on = {{0, 2000}, {0, 2000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  unsigned long number = 0x60000000, passes = 0;
  while (came < 12) {
    number = 0x60000000 | ((number + 8) & 0xffff);
    passes++;
    __asm__ volatile("" : "+d"(number) : : "memory");
  }
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  CHECK(write(p[1], "x", 1) == 1);
  CHECK(pthread_join(thread, NULL) == 0);
  printf("%lx after %lu\n", number, passes);
  return guest_ok();
}
