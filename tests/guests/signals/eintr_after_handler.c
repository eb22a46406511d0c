// Who is told EINTR has had its handler: a program that looks at what its handler has set, and waits again, must not miss it. And
// nobody is told so without a handler: neither because of a signal that is ignored, nor because somebody looks after the program.
// For a process that is alone, and for one that shares memory with another.
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/time.h>

static volatile int caught;
static void handler(int sig) {
  (void)sig;
  caught++;
}

static int feed[2];

// Sends `n` signals, some milliseconds apart, then a byte.
static pid_t sender(int n, int sig) {
  pid_t to = getpid(), child = fork();
  if (child) return child;
  signal(SIGALRM, SIG_IGN);
  for (int i = 0; i < n; i++) {
    sleep_ms(1 + i % 3);
    CHECK(kill(to, sig) == 0);
  }
  sleep_ms(2);
  CHECK(write(feed[1], "!", 1) == 1);
  _exit(0);
}

static int interrupted, late;

static void waits(int ep) {
  struct epoll_event event;
  struct pollfd pfd = {.fd = feed[0], .events = POLLIN};
  for (int i = 0;; i++) {
    int seen = caught, ready = i % 2 ? poll(&pfd, 1, -1) : epoll_wait(ep, &event, 1, -1);
    if (ready == 1) break;
    CHECK(ready == -1 && errno == EINTR);
    interrupted++;
    late += caught == seen;
  }
  char c;
  CHECK(read(feed[0], &c, 1) == 1 && c == '!');
}

static void all(void) {
  int ep = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, feed[0], &event) == 0);
  // By somebody else, by a timer, and ignored.
  pid_t child = sender(8, SIGUSR1);
  waits(ep);
  check_exited(child, 0);
  struct itimerval timer = {{0, 3000}, {0, 3000}}, off = {0};
  child = sender(0, 0);
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  waits(ep);
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  check_exited(child, 0);
  int before = interrupted;
  child = sender(8, SIGWINCH);
  waits(ep);
  check_exited(child, 0);
  CHECK(interrupted == before);
  CHECK(close(ep) == 0);
}

int main(void) {
  CHECK(pipe(feed) == 0);
  on_signal(SIGUSR1, handler, 0);
  on_signal(SIGALRM, handler, 0);
  for (int i = 0; i < 5; i++) all();
  // Somebody else has turns with this memory, for as long as this runs.
  volatile int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  pid_t other = fork();
  if (other == 0) {
    signal(SIGALRM, SIG_IGN);
    for (int i = 0; !shared[1]; i++) {
      shared[0] = i;
      getppid();
    }
    _exit(0);
  }
  for (int i = 0; i < 5; i++) all();
  shared[1] = 1;
  check_exited(other, 0);
  printf("%d signals, %d waits interrupted, %d before the handler\n", caught, interrupted, late);
  CHECK(late == 0);
  return guest_ok();
}
