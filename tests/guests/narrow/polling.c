// cflags: -m32
// needs: /usr/lib32/crt1.o
// select, pselect, poll, ppoll and epoll, with times that end and descriptors that are ready.
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>

int main(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  // A number above 32, so that sets have more than one word.
  CHECK(dup2(ends[0], 70) == 70 && dup2(ends[1], 71) == 71);
  fd_set readable, writable;
  FD_ZERO(&readable);
  FD_SET(70, &readable);
  struct timeval time = {0, 20000};
  CHECK(select(71, &readable, NULL, NULL, &time) == 0 && !FD_ISSET(70, &readable));
  CHECK(time.tv_sec == 0 && time.tv_usec == 0);
  CHECK(write(71, "abc", 3) == 3);
  FD_SET(70, &readable);
  FD_ZERO(&writable);
  FD_SET(71, &writable);
  time = (struct timeval){5, 0};
  CHECK(select(72, &readable, &writable, NULL, &time) == 2 && FD_ISSET(70, &readable) && FD_ISSET(71, &writable));
  CHECK(time.tv_sec == 4 && time.tv_usec > 0);
  sigset_t mask;
  sigemptyset(&mask);
  CHECK(pselect(71, &readable, NULL, NULL, &(struct timespec){1, 0}, &mask) == 1);
  // A set that is as short as it may be, with a word behind it that must stay as it is.
  struct { uint32_t set, behind; } tight = {1u << ends[0], 0xdeadbeef};
  CHECK(ends[0] < 32 && select(ends[0] + 1, (fd_set *)&tight, NULL, NULL, NULL) == 1);
  CHECK(tight.set == 1u << ends[0] && tight.behind == 0xdeadbeef);
  struct pollfd polled[] = {{70, POLLIN, 0}, {-1, POLLIN, 7}, {71, POLLOUT, 0}, {99, POLLIN, 0}};
  CHECK(poll(polled, 4, 1000) == 3);
  CHECK(polled[0].revents == POLLIN && polled[2].revents == POLLOUT && polled[3].revents == POLLNVAL);
  CHECK(ppoll(polled, 1, &(struct timespec){1, 0}, &mask) == 1);
  char got[8];
  CHECK(read(70, got, 8) == 3 && poll(polled, 1, 10) == 0);
  CHECK(ppoll(polled, 1, &(struct timespec){0, 10000000}, NULL) == 0);
  int epoll = epoll_create1(0), event = eventfd(0, 0);
  CHECK(epoll >= 0 && event >= 0);
  struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 0x123456789abcdefull};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted) == 0);
  struct epoll_event events[4];
  CHECK(epoll_wait(epoll, events, 4, 10) == 0);
  CHECK(write(event, &(uint64_t){7}, 8) == 8);
  CHECK(epoll_wait(epoll, events, 4, 1000) == 1 && events[0].data.u64 == 0x123456789abcdefull);
  CHECK(epoll_pwait(epoll, events, 4, 1000, &mask) == 1 && events[0].events == EPOLLIN);
  puts("ready");
  return guest_ok();
}
