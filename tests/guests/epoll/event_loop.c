// steps:
// One epoll loop over a timerfd, a signalfd, an eventfd, a pipe from a child and a pidfd, as servers have it.
#include "../guest.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

int main(void) {
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGCHLD);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  int ep = epoll_create1(0), p[2], fds[4], events = 0, timers = 0, lines = 0, children = 0, nudges = 0;
  CHECK(pipe(p) == 0);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 5; i++) {
      CHECK(dprintf(p[1], "line %d\n", i) == 7);
      usleep(2000);
    }
    _exit(3);
  }
  fds[0] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  fds[1] = signalfd(-1, &set, 0);
  fds[2] = eventfd(0, EFD_NONBLOCK);
  fds[3] = p[0];
  struct itimerspec t = {{0, 3000000}, {0, 3000000}};
  CHECK(timerfd_settime(fds[0], 0, &t, NULL) == 0);
  for (uint32_t i = 0; i < 4; i++) {
    struct epoll_event e = {EPOLLIN, {.u32 = i}};
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e) == 0);
  }
  while (timers < 3 || lines < 5 || !children || nudges < 3) {
    struct epoll_event got[4];
    int n = epoll_pwait(ep, got, 4, 5000, &set);
    CHECK(n > 0);
    for (int i = 0; i < n; i++, events++) {
      uint64_t v;
      char text[64];
      struct signalfd_siginfo info;
      switch (got[i].data.u32) {
        case 0:
          if (read(fds[0], &v, 8) == 8) timers += (int)v;
          CHECK(eventfd_write(fds[2], 1) == 0);
          break;
        case 1:
          CHECK(read(fds[1], &info, sizeof info) == sizeof info && info.ssi_pid == (uint32_t)child);
          check_exited(child, 3);
          children++;
          break;
        case 2:
          CHECK(eventfd_read(fds[2], &v) == 0);
          nudges++;
          break;
        default:
          lines += (int)read(p[0], text, 7) / 7;
      }
    }
  }
  printf("%d events, %d timers, %d nudges\n", events, timers, nudges);
  return guest_ok();
}
