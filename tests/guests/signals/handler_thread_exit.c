// A handler that never returns: siglongjmp out of it many times, and pthread_exit from within one.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int jumps;

static void jumper(int sig) {
  (void)sig;
  jumps++;
  siglongjmp(back, jumps);
}

static void leaver(int sig) {
  (void)sig;
  pthread_exit((void *)99);
}

static void *body(void *arg) {
  (void)arg;
  raise(SIGUSR2);
  return NULL;
}

int main(void) {
  on_signal(SIGUSR1, jumper, 0);
  int r = sigsetjmp(back, 1);
  CHECK(r == jumps);
  if (r < 50) raise(SIGUSR1);
  CHECK(jumps == 50);
  sigset_t now;
  CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1));
  on_signal(SIGUSR2, leaver, 0);
  CHECK(join_thread(start_thread(body, NULL)) == (void *)99);
  printf("%d jumps\n", jumps);
  return guest_ok();
}
