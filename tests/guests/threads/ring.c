// A token goes 50 times around a ring of ten threads, over pipes; each adds what it knows.
#include "../guest.h"

static int ring[10][2];
static pid_t tids[10];

static void *body(void *arg) {
  long me = (long)arg;
  uint64_t token;
  tids[me] = tid_self();
  for (int round = 0; round < 50; round++) {
    CHECK(read(ring[me][0], &token, 8) == 8);
    token = token * 3 + (uint64_t)me;
    CHECK(write(ring[(me + 1) % 10][1], &token, 8) == 8);
  }
  return NULL;
}

int main(void) {
  pthread_t t[10];
  for (int i = 0; i < 10; i++) CHECK(pipe(ring[i]) == 0);
  for (long i = 0; i < 10; i++) t[i] = start_thread(body, (void *)i);
  uint64_t token = 1, want = 1;
  for (int i = 0; i < 500; i++) want = want * 3 + (uint64_t)i % 10;
  CHECK(write(ring[0][1], &token, 8) == 8);
  for (int i = 0; i < 10; i++) join_thread(t[i]);
  CHECK(read(ring[0][0], &token, 8) == 8 && token == want);
  printf("%lx by %d..%d\n", token, tids[0], tids[9]);
  return guest_ok();
}
