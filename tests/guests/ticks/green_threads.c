// Threads of the program's own making, switched by swapcontext in the handler of a timer. All contexts have the signal
// blocked: one that came between swapcontext's change of the mask and its change of the stack would switch half a context.
#include "../guest.h"
#include <sys/time.h>
#include <ucontext.h>

enum { GREEN = 4, SWITCHES = 60, STACK = 64 * 1024 };
static sigset_t alarms;
static ucontext_t contexts[GREEN], home;
static volatile int current, switches;
static volatile unsigned long counts[GREEN];

static void handler(int sig) {
  (void)sig;
  int was = current;
  if (++switches >= SWITCHES) {
    swapcontext(&contexts[was], &home);
    return;
  }
  current = (was + 1) % GREEN;
  swapcontext(&contexts[was], &contexts[current]);
}

static void body(int me) {
  CHECK(sigprocmask(SIG_UNBLOCK, &alarms, NULL) == 0);
  for (;;) counts[me]++;
}

int main(void) {
  on_signal(SIGALRM, handler, 0);
  CHECK(sigemptyset(&alarms) == 0 && sigaddset(&alarms, SIGALRM) == 0);
  CHECK(sigprocmask(SIG_BLOCK, &alarms, NULL) == 0);
  for (int i = 0; i < GREEN; i++) {
    CHECK(getcontext(&contexts[i]) == 0);
    char *stack = malloc(STACK);
    contexts[i].uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK};
    makecontext(&contexts[i], (void (*)(void))body, 1, i);
  }
  struct itimerval on = {{0, 4000}, {0, 4000}}, off = {0};
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  CHECK(swapcontext(&home, &contexts[0]) == 0);
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  for (int i = 0; i < GREEN; i++) {
    CHECK(counts[i] > 0);
    printf("%d: %lu\n", i, counts[i]);
  }
  return guest_ok();
}
