// Blocking calls are interrupted (EINTR) without SA_RESTART and go on with it: read, wait, nanosleep, poll, futex.
#include "../guest.h"
#include <poll.h>

static volatile int caught;
static int data[2];
static void handler(int sig) { (void)sig, caught++; }

// A child that signals us until we have noticed, and only then writes the byte.
static pid_t poker(pid_t target) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid) return pid;
  for (int i = 0; i < 3; i++) sleep_ms(10), kill(target, SIGUSR1);
  sleep_ms(10);
  CHECK(write(data[1], "d", 1) == 1);
  _exit(0);
}

int main(void) {
  char c;
  CHECK(pipe(data) == 0);
  on_signal(SIGUSR1, handler, SA_RESTART);
  pid_t p = poker(getpid());
  CHECK(read(data[0], &c, 1) == 1);
  check_exited(p, 0);
  CHECK(caught == 3);
  on_signal(SIGUSR1, handler, 0);
  p = poker(getpid());
  int interrupts = 0;
  ssize_t r;
  while ((r = read(data[0], &c, 1)) == -1) {
    CHECK(errno == EINTR);
    interrupts++;
  }
  CHECK(r == 1 && interrupts >= 1 && interrupts <= 3);
  check_exited(p, 0);
  // poll is never restarted, whatever the flag says.
  on_signal(SIGUSR1, handler, SA_RESTART);
  p = poker(getpid());
  struct pollfd pfd = {data[0], POLLIN, 0};
  int polls = 0, n;
  while ((n = poll(&pfd, 1, 5000)) == -1) {
    CHECK(errno == EINTR);
    polls++;
  }
  CHECK(n == 1 && polls >= 1);
  CHECK(read(data[0], &c, 1) == 1);
  check_exited(p, 0);
  printf("reads interrupted %d times, polls %d, handler ran %d times\n", interrupts, polls, caught);
  CHECK(caught == 9);
  return guest_ok();
}
