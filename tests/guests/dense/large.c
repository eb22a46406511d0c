// A program with much text, whose threads compute side by side and make a call now and then: its text begins to count only
// when they have had to be stopped a few times, at one thread's call, wherever the others are then: computing, in a handler, in a call.
#include "../guest.h"
#include <sys/syscall.h>

// More than a text that counts from the second thread on.
__asm__(".section .text.never, \"ax\"\n.fill 5 << 20, 1, 0xcc\n.previous");

enum { ROUNDS = 24, STEPS = 1000000 };
static volatile sig_atomic_t handled;
static int p[2];

static void handler(int sig) { handled += sig == SIGUSR1; }

static __attribute__((noinline)) uint64_t steps(uint64_t v) {
  for (int i = 0; i < STEPS; i++) {
    v = v * 6364136223846793005ull + 1442695040888963407ull;
    if (v & 1 << 20) v ^= v >> 7;
    if (v & 1 << 21) v += v << 3;
    if (v & 1 << 22) v ^= v >> 11;
    if (v & 1 << 23) v -= v << 5;
  }
  return v;
}

static void *work(void *arg) {
  uint64_t *v = arg;
  for (int i = 0; i < ROUNDS; i++) {
    *v = steps(*v);
    if (i % 6 == 5) CHECK(syscall(SYS_getppid) == getppid());
  }
  return NULL;
}

static void *wait_for_it(void *arg) {
  char c;
  CHECK(read(p[0], &c, 1) == 1 && c == 'x');
  return arg;
}

int main(void) {
  CHECK(pipe(p) == 0);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  uint64_t sums[3], wanted[3];
  for (int k = 0; k < 3; k++) {
    sums[k] = wanted[k] = (uint64_t)k + 1;
    for (int i = 0; i < ROUNDS; i++) wanted[k] = steps(wanted[k]);
  }
  pthread_t threads[3], waiter = start_thread(wait_for_it, NULL);
  for (int k = 0; k < 3; k++) threads[k] = start_thread(work, &sums[k]);
  for (int i = 0; i < 20; i++) {
    CHECK(pthread_kill(threads[i % 3], SIGUSR1) == 0 || i > 3);
    usleep(2000);
  }
  for (int k = 0; k < 3; k++) join_thread(threads[k]);
  CHECK(write(p[1], "x", 1) == 1);
  join_thread(waiter);
  CHECK(memcmp(sums, wanted, sizeof sums) == 0 && handled > 0);
  printf("%d %lx %lx %lx\n", handled > 0, sums[0], sums[1], sums[2]);
  return guest_ok();
}
