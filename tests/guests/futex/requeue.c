// FUTEX_CMP_REQUEUE moves waiters to another word; FUTEX_WAKE_OP changes one word and wakes on two.
#include "../guest.h"

static uint32_t a, b, awake;

static void *waiter(void *arg) {
  (void)arg;
  long r;
  do r = futex(&a, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  while (r == -1 && errno == EINTR);
  CHECK(r == 0);
  __atomic_add_fetch(&awake, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

int main(void) {
  CHECK_ERRNO(futex(&a, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)5, &b, 99), EAGAIN);
  pthread_t t[5];
  for (int i = 0; i < 5; i++) t[i] = start_thread(waiter, NULL);
  long moved = 0, rounds = 0;
  while (moved < 5) {  // none is woken, all move, as soon as they wait
    long r = futex(&a, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)5, &b, 0);
    CHECK(r >= 0);
    moved += r;
    usleep(500), rounds++;
  }
  CHECK(moved == 5 && awake == 0);
  CHECK(futex(&a, FUTEX_WAKE_PRIVATE, 5, NULL, NULL, 0) == 0);
  CHECK(futex(&b, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0) == 2);
  // b: old value 0; set to 7; wake waiters of b as 0 == 0.
  long woken = futex(&a, FUTEX_WAKE_OP_PRIVATE, 1, (void *)10, &b, FUTEX_OP(FUTEX_OP_SET, 7, FUTEX_OP_CMP_EQ, 0));
  CHECK(woken == 3 && b == 7);
  for (int i = 0; i < 5; i++) join_thread(t[i]);
  CHECK(awake == 5);
  printf("%ld rounds\n", rounds);
  return guest_ok();
}
