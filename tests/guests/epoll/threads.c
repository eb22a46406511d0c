// Four threads wait on one epoll set for work from a fifth; every item is taken once. epoll in epoll.
#include "../guest.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int ep, work[16], taken[16], by[4];

static void *worker(void *arg) {
  long me = (long)arg;
  for (;;) {
    struct epoll_event e;
    int n = epoll_wait(ep, &e, 1, -1);
    CHECK(n == 1 || (n == -1 && errno == EINTR));
    if (n < 1) continue;
    if (e.data.u32 == 99) return NULL;
    eventfd_t v;
    CHECK(eventfd_read(work[e.data.u32], &v) == 0);
    __atomic_add_fetch(&taken[e.data.u32], (int)v, __ATOMIC_SEQ_CST);
    by[me]++;
    struct epoll_event again = {EPOLLIN | EPOLLONESHOT, {.u32 = e.data.u32}};
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, work[e.data.u32], &again) == 0);
  }
}

int main(void) {
  ep = epoll_create1(0);
  for (uint32_t i = 0; i < 16; i++) {
    struct epoll_event e = {EPOLLIN | EPOLLONESHOT, {.u32 = i}};
    work[i] = eventfd(0, EFD_NONBLOCK);
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, work[i], &e) == 0);
  }
  pthread_t t[4];
  for (long i = 0; i < 4; i++) t[i] = start_thread(worker, (void *)i);
  for (int i = 0; i < 200; i++) {
    CHECK(eventfd_write(work[i % 16], 1) == 0);
    if (i % 7 == 0) sched_yield();
  }
  for (int i = 0; i < 16; i++)
    while (__atomic_load_n(&taken[i], __ATOMIC_SEQ_CST) < (i < 8 ? 13 : 12)) usleep(500);
  int outer = epoll_create1(0), stop = eventfd(1, 0);
  struct epoll_event e = {EPOLLIN, {.u32 = 99}}, got;
  CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, ep, &e) == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, stop, &e) == 0);
  CHECK(epoll_wait(outer, &got, 1, 1000) == 1);
  for (int i = 0; i < 4; i++) join_thread(t[i]);
  printf("shares %d %d %d %d\n", by[0], by[1], by[2], by[3]);
  return guest_ok();
}
