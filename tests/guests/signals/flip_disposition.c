// One thread sends itself a signal while another sets and removes its handler: whether the handler runs is decided
// when the signal arrives, however the threads take their turns.
#include "../guest.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define ROUNDS 3000

static atomic_int handled, done;

static void handler(int signal) {
  (void)signal;
  handled++;
}

static void *sender(void *arg) {
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) CHECK(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) == 0);
  done = 1;
  return NULL;
}

int main(void) {
  pthread_t thread;
  struct sigaction set = {.sa_handler = handler}, ignore = {.sa_handler = SIG_IGN};
  CHECK(sigaction(SIGUSR1, &set, NULL) == 0);
  CHECK(pthread_create(&thread, NULL, sender, NULL) == 0);
  while (!done) {
    CHECK(sigaction(SIGUSR1, &ignore, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &set, NULL) == 0);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  printf("%d of %d were handled\n", handled, ROUNDS);
  return guest_ok();
}
