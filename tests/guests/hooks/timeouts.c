// steps:
// A call that waits a given time, and in vain, waits that long and no longer: nobody begins its time again in the middle of
// it. Of four tries the shortest counts, because on a busy machine one may be late for other reasons.
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { WAIT_MS = 230, TRIES = 4, KINDS = 5 };

static void wait_in_vain(int kind, int fd, int epoll) {
  struct pollfd f = {fd, POLLIN, 0};
  struct epoll_event got;
  struct timespec time = {0, WAIT_MS * 1000000};
  struct timeval micro = {0, WAIT_MS * 1000};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  int found = -1;
  switch (kind) {
  case 0: found = poll(&f, 1, WAIT_MS); break;
  case 1: found = epoll_wait(epoll, &got, 1, WAIT_MS); break;
  case 2: found = select(fd + 1, &set, NULL, NULL, &micro); break;
  case 3: found = ppoll(&f, 1, &time, NULL); break;
  case 4: found = (int)syscall(SYS_epoll_pwait2, epoll, &got, 1, &time, NULL, 0); break;
  }
  CHECK(found == 0);
}

static void child(int kind) {
  int p[2], epoll = epoll_create1(0);
  struct epoll_event ev = {EPOLLIN, {.u64 = 1}};
  CHECK(pipe(p) == 0 && epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, p[0], &ev) == 0);
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    int64_t begin = now_ns();
    wait_in_vain(kind, p[0], epoll);
    int64_t took = now_ns() - begin;
    CHECK(took >= (WAIT_MS - 1) * 1000000ll);
    shortest = took < shortest ? took : shortest;
  }
  printf("kind %d: %lld us\n", kind, (long long)shortest / 1000);
  CHECK(shortest < (WAIT_MS + 150) * 1000000ll);
  exit(0);
}

int main(void) {
  pid_t pids[KINDS];
  for (int kind = 0; kind < KINDS; kind++)
    if ((pids[kind] = fork()) == 0) child(kind);
  for (int kind = 0; kind < KINDS; kind++) check_exited(pids[kind], 0);
  return guest_ok();
}
