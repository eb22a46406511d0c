// Many signals that wait are let in at once: the kernel calls one handler on top of the other before any of them executes
// anything. So the last number is handled first, and no handler is interrupted by another. What was sent to the process and
// what was sent to the thread are two signals.
#include "../guest.h"

enum { NUMBERS = 10, SIGNALS = 300 };

static volatile int n;
static volatile int sigs[SIGNALS], values[SIGNALS];

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)ctx;
  int at = n;
  sigs[at] = sig;
  values[at] = info->si_value.sival_int;
  n = at + 1;
}

static void plain(int sig) { sigs[n++] = sig; }

int main(void) {
  sigset_t set, old;
  sigemptyset(&set);
  struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  for (int i = 0; i < NUMBERS; i++) {
    sigaddset(&set, SIGRTMIN + i);
    CHECK(sigaction(SIGRTMIN + i, &sa, NULL) == 0);
  }
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  for (int i = 0; i < SIGNALS; i++) {
    CHECK(sigqueue(getpid(), SIGRTMIN + i * 7 % NUMBERS, (union sigval){.sival_int = i}) == 0);
  }
  CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  CHECK(n == SIGNALS);
  for (int i = 0; i < SIGNALS; i++) {
    CHECK(sigs[i] == SIGRTMIN + NUMBERS - 1 - i / (SIGNALS / NUMBERS));
    // The one whose handler was called first, of each number, is the first that was sent; the others follow.
    if (i > 0 && sigs[i] == sigs[i - 1]) CHECK(values[i] > values[i - 1]);
  }
  int ordinary[] = {SIGUSR1, SIGUSR2, SIGTERM};
  sigemptyset(&set);
  for (int i = 0; i < 3; i++) {
    sigaddset(&set, ordinary[i]);
    signal(ordinary[i], plain);
  }
  n = 0;
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  for (int i = 0; i < 3; i++) CHECK(kill(getpid(), ordinary[i]) == 0);
  CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  CHECK(n == 3 && sigs[0] == SIGTERM && sigs[1] == SIGUSR2 && sigs[2] == SIGUSR1);
  n = 0;
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  for (int i = 0; i < 2; i++) CHECK(kill(getpid(), SIGUSR1) == 0 && raise(SIGUSR1) == 0);
  CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  CHECK(n == 2 && sigs[0] == SIGUSR1 && sigs[1] == SIGUSR1);
  return guest_ok();
}
