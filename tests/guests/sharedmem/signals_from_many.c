// Several processes send the same signal to one that makes calls without a stop, waits, and shares memory with another: each of its
// logs of calls has its place between two events.
#include "../guest.h"
#include <sys/epoll.h>

static volatile int caught;
static void handler(int sig) {
  (void)sig;
  caught++;
}

static int feed[2];

static void send_to(pid_t target, int which) {
  for (int i = 0; i < 150; i++) {
    struct timespec t = {0, 50000 + (i * 7 + which * 13) % 11 * 20000};
    nanosleep(&t, NULL);
    CHECK(kill(target, SIGUSR1) == 0);
    if (i % 10 == 0) CHECK(write(feed[1], "x", 1) == 1);
  }
}

static void change(volatile long *shared) {
  for (long i = 0; !shared[1]; i++) {
    shared[0] = i;
    struct timespec t = {0, 100000};
    if (i % 64 == 0) nanosleep(&t, NULL);
  }
}

int main(void) {
  CHECK(pipe(feed) == 0);
  on_signal(SIGUSR1, handler, 0);
  volatile long *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  pid_t target = getpid(), children[4];
  for (int which = 0; which < 4; which++) {
    children[which] = fork();
    if (children[which]) continue;
    signal(SIGUSR1, SIG_IGN);
    if (which == 3) {
      change(shared);
    } else {
      CHECK(munmap((void *)shared, PAGE) == 0);
      send_to(target, which);
    }
    _exit(0);
  }
  int ep = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN}, got;
  CHECK(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, feed[0], &event) == 0);
  long sum = 0;
  for (int n = 0; n < 45;) {
    int ready = epoll_wait(ep, &got, 1, -1);
    char c;
    if (ready == 1)
      n += read(feed[0], &c, 1) == 1;
    else
      CHECK(errno == EINTR);
    for (int i = 0; i < 20; i++) {
      sum = sum * 31 + getppid() + shared[0];
      now_ns();
    }
  }
  for (int which = 0; which < 3; which++) check_exited(children[which], 0);
  shared[1] = 1;
  check_exited(children[3], 0);
  printf("%d %ld\n", caught, sum);
  return guest_ok();
}
