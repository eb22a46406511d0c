// steps:
// FUTEX_WAIT and FUTEX_WAKE: values, counts, EAGAIN, ETIMEDOUT, bitsets.
#include "../guest.h"

static uint32_t word, ready;

static void *waiter(void *arg) {
  uint32_t mask = (uint32_t)(long)arg;
  __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) {
    long r = futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, mask);
    CHECK(r == 0 || errno == EAGAIN || errno == EINTR);
    if (r == 0) return (void *)1;
  }
  return NULL;
}

int main(void) {
  struct timespec t = {0, 10000000};
  CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN);
  CHECK_ERRNO(futex(&word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0), ETIMEDOUT);
  CHECK_ERRNO(futex((char *)&word + 1, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), EINVAL);
  CHECK_ERRNO(futex((void *)4096, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), EFAULT);
  CHECK(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0) == 0);
  pthread_t a[3];
  for (int i = 0; i < 3; i++) a[i] = start_thread(waiter, (void *)(long)(i == 2 ? 2 : 1));
  while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 3) sched_yield();
  long woken = 0, rounds = 0;
  while (woken < 2) {  // both with mask 1, as soon as they wait
    woken += futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 5, NULL, NULL, 1);
    usleep(1000), rounds++;
  }
  CHECK(woken == 2);
  CHECK(join_thread(a[0]) == (void *)1 && join_thread(a[1]) == (void *)1);
  long last = 0;
  while (last == 0) usleep(1000), last = futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 5, NULL, NULL, 2);
  CHECK(last == 1);
  join_thread(a[2]);
  printf("%ld rounds\n", rounds);
  return guest_ok();
}
