// epoll: level and edge triggering, one-shot, data, modification, removal, closing.
#include "../guest.h"
#include <sys/epoll.h>

int main(void) {
  int ep = epoll_create1(EPOLL_CLOEXEC), p[2], q[2];
  char c;
  struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0x1234567890abcdef}, got[4];
  CHECK(ep >= 0 && pipe(p) == 0 && pipe(q) == 0);
  CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e) == 0);
  CHECK_ERRNO(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e), EEXIST);
  CHECK_ERRNO(epoll_ctl(ep, EPOLL_CTL_MOD, q[0], &e), ENOENT);
  CHECK(epoll_wait(ep, got, 4, 0) == 0 && write(p[1], "abc", 3) == 3);
  for (int i = 0; i < 2; i++) CHECK(epoll_wait(ep, got, 4, 1000) == 1 && got[0].data.u64 == 0x1234567890abcdef);
  e.events = EPOLLIN | EPOLLET;
  CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &e) == 0);
  CHECK(epoll_wait(ep, got, 4, 1000) == 1 && epoll_wait(ep, got, 4, 0) == 0);
  CHECK(write(p[1], "d", 1) == 1 && epoll_wait(ep, got, 4, 1000) == 1);
  e.events = EPOLLIN | EPOLLONESHOT, e.data.fd = 7;
  CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &e) == 0);
  CHECK(epoll_wait(ep, got, 4, 1000) == 1 && got[0].data.fd == 7 && epoll_wait(ep, got, 4, 0) == 0);
  e.events = EPOLLOUT;
  CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, q[1], &e) == 0 && epoll_wait(ep, got, 4, 0) == 1 && got[0].events == EPOLLOUT);
  CHECK(close(q[0]) == 0 && epoll_wait(ep, got, 4, 0) == 1 && (got[0].events & EPOLLERR));
  CHECK(close(q[1]) == 0 && epoll_wait(ep, got, 4, 0) == 0);
  while (read(p[0], &c, 1) == 1 && c != 'd') {}
  CHECK(epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL) == 0);
  CHECK_ERRNO(epoll_wait(ep, got, 0, 0), EINVAL);
  int f = open("f", O_CREAT | O_RDWR, 0600);
  CHECK_ERRNO(epoll_ctl(ep, EPOLL_CTL_ADD, f, &e), EPERM);
  int64_t began = now_ns();
  CHECK(epoll_wait(ep, got, 4, 10) == 0);
  printf("a wait of 10 ms took %ld us\n", (long)(now_ns() - began) / 1000);
  return guest_ok();
}
