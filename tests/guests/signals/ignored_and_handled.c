// A signal that is ignored and one with a handler come together to a process that waits in a call which is never made again.
#include "../guest.h"
#include <sys/epoll.h>

static volatile int caught;
static void handler(int sig) {
  (void)sig;
  caught++;
}

static int feed[2];

static pid_t sender(void) {
  pid_t to = getpid(), child = fork();
  if (child) return child;
  for (int i = 0; i < 300; i++) {
    struct timespec t = {0, 200000 + i % 7 * 30000};
    nanosleep(&t, NULL);
    CHECK(kill(to, SIGWINCH) == 0);
    for (volatile int k = 0; k < i % 50 * 200; k++)
      ;
    CHECK(kill(to, SIGUSR1) == 0);
  }
  CHECK(write(feed[1], "!", 1) == 1);
  _exit(0);
}

int main(void) {
  CHECK(pipe(feed) == 0);
  on_signal(SIGUSR1, handler, 0);
  int ep = epoll_create1(0), interrupted = 0, odd = 0;
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, got[4];
  CHECK(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, feed[0], &event) == 0);
  pid_t child = sender();
  for (;;) {
    memset(got, 0x55, sizeof got);
    int seen = caught, n = epoll_wait(ep, got, 4, -1);
    if (n == 1) break;
    bool is_kept = got[0].data.u64 == 0x5555555555555555 && got[1].data.u64 == 0x5555555555555555;
    odd += n != -1 || errno != EINTR || caught == seen || !is_kept;
    interrupted++;
  }
  check_exited(child, 0);
  printf("%d %d odd %d\n", caught, interrupted, odd);
  CHECK(odd == 0);
  return guest_ok();
}
