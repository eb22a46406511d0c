// Handlers on an alternate stack and nested in one another, in threads that compute with different masks; real-time signals
// queued meanwhile come in their order.
#include "../guest.h"
#include <stdatomic.h>

static atomic_int alarms, nested, ready;
static atomic_int order[64], orders;
static volatile sig_atomic_t in_outer;
static __thread volatile unsigned long count;

static void inner(int sig) {
  (void)sig;
  if (in_outer) nested++;
}

static void outer(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)info, (void)context;
  char here;
  stack_t now;
  CHECK(sigaltstack(NULL, &now) == 0);
  if (now.ss_flags & SS_ONSTACK) {
    CHECK(&here >= (char *)now.ss_sp && &here < (char *)now.ss_sp + now.ss_size);
  }
  in_outer = 1;
  // Long enough for the inner signal to come in the middle.
  for (volatile int i = 0; i < 2000000 && !nested; i++) {
  }
  in_outer = 0;
  alarms++;
}

static void queued(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  int at = orders++;
  if (at < 64) order[at] = info->si_value.sival_int;
}

static void *compute(void *arg) {
  int me = (int)(intptr_t)arg;
  sigset_t set;
  sigemptyset(&set);
  // Only the second takes queued signals.
  if (me != 1) sigaddset(&set, SIGRTMIN);
  if (me != 0) sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  CHECK(sigaltstack(&stack, NULL) == 0);
  ready++;
  while (orders < 20 || alarms < 5) count++;
  printf("thread %d counted to %lu\n", me, count);
  return NULL;
}

int main(void) {
  on_siginfo(SIGUSR1, outer, SA_ONSTACK);
  on_signal(SIGUSR2, inner, 0);
  on_siginfo(SIGRTMIN, queued, SA_RESTART);
  pthread_t t[3];
  for (intptr_t i = 0; i < 3; i++) t[i] = start_thread(compute, (void *)i);
  sigset_t all;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
  while (ready < 3) sleep_ms(1);
  for (int i = 0; i < 20; i++) {
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
    if (i % 4 == 0) {
      int before = alarms;
      CHECK(kill(getpid(), SIGUSR1) == 0);
      sleep_ms(2);
      CHECK(kill(getpid(), SIGUSR2) == 0);
      while (alarms == before) sleep_ms(1);
    }
  }
  for (int i = 0; i < 3; i++) join_thread(t[i]);
  CHECK(orders == 20 && alarms == 5);
  for (int i = 0; i < 20; i++) CHECK(order[i] == i);
  printf("%d nested\n", nested);
  return guest_ok();
}
