// futex_waitv: waiting on several words at once; an older kernel says ENOSYS.
#include "../guest.h"

struct waiter { uint64_t val, uaddr; uint32_t flags, reserved; };
static uint32_t words[3], sleeping;

static void *waker(void *arg) {
  (void)arg;
  while (__atomic_load_n(&sleeping, __ATOMIC_SEQ_CST) == 0) usleep(500);
  while (futex(&words[1], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0) usleep(500);
  return NULL;
}

int main(void) {
  struct waiter w[3];
  for (int i = 0; i < 3; i++) w[i] = (struct waiter){0, (uint64_t)(uintptr_t)&words[i], 2 | 128, 0};
  words[2] = 5;
  long r = syscall(449, w, 3, 0, NULL, CLOCK_MONOTONIC);
  if (r == -1 && errno == ENOSYS) {
    puts("this kernel has no futex_waitv");
    return guest_ok();
  }
  CHECK(r == -1 && errno == EAGAIN);
  words[2] = 0;
  pthread_t t = start_thread(waker, NULL);
  __atomic_store_n(&sleeping, 1, __ATOMIC_SEQ_CST);
  do r = syscall(449, w, 3, 0, NULL, CLOCK_MONOTONIC);
  while (r == -1 && errno == EINTR);
  CHECK(r == 1);
  join_thread(t);
  printf("woken by word %ld\n", r);
  return guest_ok();
}
