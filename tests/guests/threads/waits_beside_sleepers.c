// steps: -DROUNDS=1
// A thread waits for its client by each call there is for it, while all other threads of its process wait, too: for ever, for
// a moment, or for that thread itself. What was asked comes to the same, whoever comes back first, and a wait for nothing waits.
#include "../guest.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

#ifndef ROUNDS
#define ROUNDS 20
#endif

enum { WAYS = 6 };

static int partner[2], end[2];
static volatile int is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

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
  case 0: n = epoll_wait(ep, &event, 1, ms); break;
  case 1: return poll(&p, 1, ms);
  case 2: return ppoll(&p, 1, ms < 0 ? NULL : &ts, NULL);
  case 3: return select(fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &tv);
  case 4: return pselect(fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &ts, NULL);
  case 5:
    n = syscall(SYS_epoll_pwait2, ep, &event, 1, ms < 0 ? NULL : &ts, NULL, 8);
    if (n < 0 && errno == ENOSYS) n = epoll_wait(ep, &event, 1, ms);
  }
  CHECK(n < 1 || event.data.u64 == 0x1122334455667788);
  return n;
}

static void *sleep_for_ever(void *argument) {
  char c;
  CHECK(read(end[0], &c, 1) == 0);
  return argument;
}

static void *wait_to_be_told(void *argument) {
  pthread_mutex_lock(&lock);
  while (!is_over) pthread_cond_wait(&condition, &lock);
  pthread_mutex_unlock(&lock);
  return argument;
}

static void *sleep_a_moment(void *argument) {
  while (!is_over) nanosleep(&(struct timespec){0, 700000}, NULL);
  return argument;
}

// It answers the thread that waits for the client.
static void *answer(void *argument) {
  uint64_t asked;
  while (read(partner[1], &asked, 8) == 8) {
    asked *= 2;
    CHECK(write(partner[1], &asked, 8) == 8);
  }
  return argument;
}

int main(void) {
  int client[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, client) == 0);
  pid_t child = fork();
  if (child == 0) {
    close(client[1]);
    for (uint64_t said, i = 0; i < ROUNDS * WAYS; i++)
      CHECK(send(client[0], &i, 8, 0) == 8 && recv(client[0], &said, 8, 0) == 8 && said == 2 * i + 1);
    char last[8];
    CHECK(recv(client[0], last, 8, 0) == 8 && strcmp(last, "goodbye") == 0);
    _exit(0);
  }
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, partner) == 0 && pipe(end) == 0);
  void *(*sleepers[])(void *) = {sleep_for_ever, wait_to_be_told, answer, sleep_a_moment};
  pthread_t threads[4];
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, sleepers[i], NULL) == 0);
  int fd = client[1], ep = epoll_create1(0);
  CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &(struct epoll_event){EPOLLIN, {.u64 = 0x1122334455667788}}) == 0);
  for (int i = 0; i < ROUNDS * WAYS; i++) {
    // From the middle on, one comes back all the time.
    if (i == ROUNDS * WAYS / 2) CHECK(pthread_create(&threads[3], NULL, sleepers[3], NULL) == 0);
    CHECK(wait_for(i % WAYS, ep, fd, i % 2 ? -1 : 5000) == 1);
    uint64_t asked, twice;
    CHECK(recv(fd, &asked, 8, MSG_DONTWAIT) == 8 && asked == (uint64_t)i);
    CHECK(write(partner[0], &asked, 8) == 8);
    CHECK(poll(&(struct pollfd){partner[0], POLLIN, 0}, 1, -1) == 1);
    CHECK(read(partner[0], &twice, 8) == 8 && twice == 2 * asked);
    twice++;
    CHECK(send(fd, &twice, 8, 0) == 8);
  }
  // The client says nothing any more, but keeps its end.
  for (int way = 0; way < WAYS; way++) {
    struct timespec from;
    for (int ms = 3; ms < 60; ms += 25) {
      clock_gettime(CLOCK_MONOTONIC, &from);
      CHECK(wait_for(way, ep, fd, ms) == 0 && ms_since(&from) >= ms);
    }
    CHECK(wait_for(way, ep, fd, 0) == 0);
  }
  CHECK(send(fd, "goodbye", 8, 0) == 8);
  check_exited(child, 0);
  is_over = 1;
  pthread_mutex_lock(&lock);
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&lock);
  close(end[1]);
  close(partner[0]);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  return guest_ok();
}
