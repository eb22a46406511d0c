// Two threads of different nice values: the better one spins until the worse has run, without a call and with them. Priorities
// order who runs; they starve nobody.
#include "../guest.h"
#include <sys/resource.h>

static volatile int stage;

static void *worse(void *arg) {
  (void)arg;
  CHECK(setpriority(PRIO_PROCESS, (id_t)tid_self(), 10) == 0);
  stage = 1;
  while (stage != 2) usleep(1000);
  for (int i = 0; i < 300; i++) CHECK(getppid() > 0);
  stage = 3;
  while (stage != 4) sched_yield();
  stage = 5;
  return NULL;
}

int main(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, worse, NULL) == 0);
  while (stage != 1) sched_yield();
  stage = 2;
  volatile uint64_t x = 1;
  while (stage != 3) x = x * 3 + 1;
  stage = 4;
  while (stage != 5) CHECK(getppid() > 0);
  CHECK(pthread_join(thread, NULL) == 0);
  printf("both have run, in process %d\n", getpid());
  return guest_ok();
}
