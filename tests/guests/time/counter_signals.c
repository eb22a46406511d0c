// steps:
// A timer's signals come in the middle of rdtsc, rdtscp and clock calls, in two threads; the handler makes them all itself. The
// counter and the clock go up, also across handlers, and nothing is lost of the interrupted ones.
#include "counter.h"

static volatile sig_atomic_t handled;
static __thread volatile uint64_t in_handler;
static volatile uint64_t mixed;

static void handler(int sig) {
  (void)sig;
  uint32_t aux;
  struct timeval day;
  uint64_t a = rdtsc(), b = rdtscp(&aux);
  CHECK(gettimeofday(&day, NULL) == 0 && a < b && b < rdtsc());
  in_handler = b;
  mixed = (mixed ^ b ^ day.tv_usec) * 1099511628211ull;
  handled++;
}

static void *work(void *arg) {
  uint64_t sum = 0, last = 0;
  uint32_t aux;
  struct timespec ts;
  for (int i = 0; handled < (arg ? 15 : 30) && i < 20000000; i++) {
    volatile uint64_t seen = in_handler;
    uint64_t now = i & 1 ? rdtsc() : rdtscp(&aux);
    CHECK(now > last && now > seen);
    last = now;
    if (i % 7 == 0) CHECK(clock_gettime(CLOCK_REALTIME, &ts) == 0);
    if (i % 13 == 0) CHECK(time(NULL) >= 1000000000);
    sum = (sum ^ now ^ ts.tv_nsec) * 1099511628211ull;
  }
  return (void *)sum;
}

int main(void) {
  on_signal(SIGALRM, handler, SA_RESTART);
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
  struct itimerspec every = {{0, 1000000}, {0, 1000000}};
  CHECK(timer_settime(timer, 0, &every, NULL) == 0);
  pthread_t thread = start_thread(work, &every);
  void *here = work(NULL), *there = join_thread(thread);
  CHECK(timer_delete(timer) == 0);
  printf("%lx %lx, %d handled, %lx\n", (uint64_t)here, (uint64_t)there, (int)handled, mixed);
  return guest_ok();
}
