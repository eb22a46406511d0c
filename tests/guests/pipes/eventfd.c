// eventfd: counting, semaphore mode, blocking between threads and over fork.
#include "../guest.h"
#include <poll.h>
#include <sys/eventfd.h>

static void *adds(void *arg) {
  for (int i = 0; i < 10; i++) {
    CHECK(eventfd_write(*(int *)arg, 3) == 0);
    sched_yield();
  }
  return NULL;
}

int main(void) {
  int fd = eventfd(5, EFD_NONBLOCK), sem = eventfd(2, EFD_SEMAPHORE), block = eventfd(0, 0);
  eventfd_t v;
  CHECK(eventfd_read(fd, &v) == 0 && v == 5);
  CHECK_ERRNO(eventfd_read(fd, &v), EAGAIN);
  CHECK(eventfd_write(fd, UINT64_MAX - 1) == 0);
  CHECK_ERRNO(eventfd_write(fd, 1), EAGAIN);
  CHECK(eventfd_read(sem, &v) == 0 && v == 1 && eventfd_read(sem, &v) == 0 && v == 1);
  struct pollfd p = {sem, POLLIN | POLLOUT, 0};
  CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLOUT);
  pthread_t t = start_thread(adds, &block);
  uint64_t sum = 0, reads = 0;
  while (sum < 30) {
    CHECK(eventfd_read(block, &v) == 0);
    sum += v, reads++;
  }
  CHECK(sum == 30);
  join_thread(t);
  pid_t child = fork();
  if (child == 0) {
    CHECK(eventfd_write(block, 77) == 0);
    _exit(0);
  }
  CHECK(eventfd_read(block, &v) == 0 && v == 77);
  check_exited(child, 0);
  printf("%lu reads\n", reads);
  return guest_ok();
}
