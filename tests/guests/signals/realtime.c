// Real-time signals: queued, in order of number then of sending, with their values.
#include "../guest.h"

static volatile int n;
static int sigs[64], values[64];

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)ctx;
  CHECK(info->si_code == SI_QUEUE && info->si_pid == getpid());
  sigs[n] = sig - SIGRTMIN;
  values[n++] = info->si_value.sival_int;
}

int main(void) {
  sigset_t set, old;
  sigemptyset(&set);
  for (int i = 0; i < 4; i++) {
    sigaddset(&set, SIGRTMIN + i);
    struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigfillset(&sa.sa_mask);
    CHECK(sigaction(SIGRTMIN + i, &sa, NULL) == 0);
  }
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  for (int i = 0; i < 20; i++) CHECK(sigqueue(getpid(), SIGRTMIN + (i * 7) % 4, (union sigval){.sival_int = i}) == 0);
  CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  CHECK(n == 20);
  for (int i = 1; i < n; i++) {
    CHECK(sigs[i] >= sigs[i - 1]);
    if (sigs[i] == sigs[i - 1]) CHECK(values[i] > values[i - 1]);
  }
  CHECK(sigs[0] == 0 && sigs[19] == 3);
  printf("the first carried %d, the last %d\n", values[0], values[19]);
  return guest_ok();
}
