// steps: -DROUNDS=1 -DPERIOD=300000
// Three servers that share memory wait for their clients by each call there is for it, each with a timer whose signal
// interrupts it: what a client has asked and the others' count come to the same, and a wait for nothing waits.
#include "../guest.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>

#ifndef ROUNDS
#define ROUNDS 20
#define PERIOD 3000
#endif

enum { SERVERS = 3, WAYS = 6 };

static volatile sig_atomic_t ticks;

static void tick(int sig) {
  (void)sig;
  ticks++;
}

static int64_t ms_since(const struct timespec *from) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000;
}

// Waits until there is something to read: for so many milliseconds, or for ever (-1). The result of the call.
static int wait_for(int way, int ep, int fd, int ms) {
  struct pollfd p = {fd, POLLIN, 0};
  struct epoll_event event = {0};
  struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
  struct timeval tv = {ms / 1000, ms % 1000 * 1000};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  int n = -1;
  switch (way) {
  case 0:
    n = epoll_wait(ep, &event, 1, ms);
    CHECK(n < 1 || event.data.u64 == 0x1122334455667788);
    return n;
  case 1: return poll(&p, 1, ms);
  case 2: return ppoll(&p, 1, ms < 0 ? NULL : &ts, NULL);
  case 3: return select(fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &tv);
  case 4: return pselect(fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &ts, NULL);
  case 5:
    n = syscall(SYS_epoll_pwait2, ep, &event, 1, ms < 0 ? NULL : &ts, NULL, 8);
    return n < 0 && errno == ENOSYS ? epoll_wait(ep, &event, 1, ms) : n;
  }
  return n;
}

static void serve(int fd, uint64_t *count) {
  int ep = epoll_create1(0);
  CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &(struct epoll_event){EPOLLIN, {.u64 = 0x1122334455667788}}) == 0);
  signal(SIGALRM, tick);
  setitimer(ITIMER_REAL, &(struct itimerval){{0, PERIOD}, {0, PERIOD}}, NULL);
  for (int i = 0; i < ROUNDS * WAYS; i++) {
    int way = i % WAYS, n;
    while ((n = wait_for(way, ep, fd, i % 2 ? -1 : 5000)) != 1) CHECK(n == -1 && errno == EINTR);
    uint64_t asked = 0;
    CHECK(recv(fd, &asked, 8, MSG_DONTWAIT) == 8);
    __atomic_add_fetch(count, asked, __ATOMIC_SEQ_CST);
    asked += 1;
    CHECK(send(fd, &asked, 8, 0) == 8);
  }
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  // The client says nothing any more, but keeps its end.
  for (int way = 0; way < WAYS; way++) {
    struct timespec from;
    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK(wait_for(way, ep, fd, 3) == 0 && ms_since(&from) >= 3);
    CHECK(wait_for(way, ep, fd, 0) == 0);
  }
  CHECK(send(fd, "goodbye", 8, 0) == 8);
}

int main(void) {
  int pairs[SERVERS][2];
  pid_t servers[SERVERS], client;
  for (int i = 0; i < SERVERS; i++) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) == 0);
  // It has no part in the servers' memory.
  if ((client = fork()) == 0) {
    // Each server is asked several times in a row, and the others wait for as long.
    for (uint64_t first = 0; first < ROUNDS * WAYS; first += WAYS)
      for (int i = 0; i < SERVERS; i++)
        for (uint64_t said, k = first; k < first + WAYS; k++)
          CHECK(send(pairs[i][0], &k, 8, 0) == 8 && recv(pairs[i][0], &said, 8, 0) == 8 && said == k + 1);
    char last[8];
    for (int i = 0; i < SERVERS; i++) CHECK(recv(pairs[i][0], last, 8, 0) == 8 && strcmp(last, "goodbye") == 0);
    _exit(0);
  }
  uint64_t *count = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < SERVERS; i++)
    if ((servers[i] = fork()) == 0) {
      serve(pairs[i][1], count);
      _exit(0);
    }
  check_exited(client, 0);
  for (int i = 0; i < SERVERS; i++) check_exited(servers[i], 0);
  uint64_t n = ROUNDS * WAYS;
  CHECK(*count == SERVERS * n * (n - 1) / 2);
  return guest_ok();
}
