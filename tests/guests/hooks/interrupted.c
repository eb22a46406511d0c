// steps:
// Calls that wait, interrupted by a handler: they end with EINTR, or go on if the handler says so (SA_RESTART), as the
// kernel has it for each. With one thread, and with another that works meanwhile.
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static volatile int count;
static void handler(int sig) {
  (void)sig;
  count++;
}

static int feed[2];

// A child that sends SIGUSR1 `n` times, then a byte.
static pid_t sender(int n) {
  pid_t to = getpid(), child = fork();
  if (child == 0) {
    for (int i = 0; i < n; i++) {
      sleep_ms(2);
      CHECK(kill(to, SIGUSR1) == 0);
    }
    sleep_ms(3);
    CHECK(write(feed[1], "!", 1) == 1);
    _exit(0);
  }
  return child;
}

static volatile bool stop;
static void *worker(void *arg) {
  uint64_t n = 0;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  while (!stop) {
    n += getppid() > 0;
    if (n % 64 == 0) sched_yield();
  }
  return (void *)(n + 0 * (uintptr_t)arg);
}

static void all(void) {
  char c = 0;
  for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
    on_signal(SIGUSR1, handler, flags);
    // read
    pid_t child;
    int interrupted = 0;
    // (The signals may all come before it waits: then again.)
    for (int i = 0; i < 1 || (!flags && interrupted == 0 && i < 50); i++) {
      count = 0;
      child = sender(2);
      ssize_t n;
      while ((n = read(feed[0], &c, 1)) == -1) CHECK(errno == EINTR && ++interrupted <= 2);
      CHECK(n == 1 && c == '!');
      check_exited(child, 0);
      CHECK(count >= 1 && count <= 2);
    }
    CHECK(flags ? interrupted == 0 : interrupted >= 1);
    // poll and epoll_wait are never made again.
    int ep = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, feed[0], &event) == 0);
    for (int which = 0; which < 2; which++) {
      child = sender(1);
      interrupted = 0;
      struct pollfd pfd = {.fd = feed[0], .events = POLLIN};
      int ready;
      while ((ready = which ? epoll_wait(ep, &event, 1, -1) : poll(&pfd, 1, -1)) == -1) {
        CHECK(errno == EINTR);
        interrupted++;
      }
      CHECK(ready == 1 && interrupted <= 1);
      CHECK(read(feed[0], &c, 1) == 1);
      check_exited(child, 0);
    }
    CHECK(close(ep) == 0);
  }
}

int main(void) {
  CHECK(pipe(feed) == 0);
  all();
  pthread_t t = start_thread(worker, NULL);
  all();
  stop = true;
  printf("%lu\n", (uint64_t)join_thread(t));
  return guest_ok();
}
