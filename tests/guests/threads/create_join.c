// A hundred threads created and joined, in two waves; each has its own tid, stack and thread-local storage.
#include "../guest.h"

static __thread int local = 7;
static pid_t tids[100];

static void *body(void *arg) {
  long i = (long)arg;
  CHECK(local == 7);
  local = (int)i;
  tids[i] = tid_self();
  sched_yield();
  CHECK(local == (int)i);
  return (void *)(i * i);
}

int main(void) {
  pthread_t t[100];
  for (int wave = 0; wave < 2; wave++) {
    for (long i = wave * 50; i < wave * 50 + 50; i++) t[i] = start_thread(body, (void *)i);
    for (long i = wave * 50; i < wave * 50 + 50; i++) CHECK((long)join_thread(t[i]) == i * i);
  }
  CHECK(local == 7);
  for (int i = 0; i < 100; i++) CHECK(tids[i] != getpid() && tids[i] > 0);
  printf("threads %d to %d of %d\n", tids[0], tids[99], getpid());
  return guest_ok();
}
