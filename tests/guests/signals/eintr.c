// Blocking calls are interrupted (EINTR) without SA_RESTART and go on with it: read, wait, nanosleep, poll, futex.
#include "../guest.h"
#include <poll.h>

static volatile int caught;
static int data[2], noticed[2];
static volatile int handler_tells;
static void handler(int sig) {
  (void)sig, caught++;
  if (handler_tells) CHECK(write(noticed[1], "n", 1) == 1);
}

// A child that signals us until we have noticed, however busy the machine is, and only then writes the byte.
static pid_t poker(pid_t target) {
  struct pollfd told = {noticed[0], POLLIN, 0};
  char c;
  // The one before may have sent signals behind the one that it knew to be noticed.
  while (poll(&told, 1, 0) == 1) CHECK(read(noticed[0], &c, 1) == 1);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid) return pid;
  for (int i = 0; i < 2000 && poll(&told, 1, 0) == 0; i++) kill(target, SIGUSR1), sleep_ms(10);
  while (poll(&told, 1, 0) == 1) CHECK(read(noticed[0], &c, 1) == 1);
  CHECK(write(data[1], "d", 1) == 1);
  _exit(0);
}

static void notice(void) { CHECK(write(noticed[1], "n", 1) == 1); }

int main(void) {
  char c;
  CHECK(pipe(data) == 0 && pipe(noticed) == 0);
  on_signal(SIGUSR1, handler, SA_RESTART);
  handler_tells = 1;
  pid_t p = poker(getpid());
  CHECK(read(data[0], &c, 1) == 1);
  check_exited(p, 0);
  CHECK(caught >= 1);
  handler_tells = 0;
  on_signal(SIGUSR1, handler, 0);
  p = poker(getpid());
  int interrupts = 0;
  ssize_t r;
  while ((r = read(data[0], &c, 1)) == -1) {
    CHECK(errno == EINTR);
    interrupts++;
    notice();
  }
  CHECK(r == 1 && interrupts >= 1);
  check_exited(p, 0);
  // poll is never restarted, whatever the flag says.
  on_signal(SIGUSR1, handler, SA_RESTART);
  p = poker(getpid());
  struct pollfd pfd = {data[0], POLLIN, 0};
  int polls = 0, n;
  while ((n = poll(&pfd, 1, 5000)) == -1) {
    CHECK(errno == EINTR);
    polls++;
    notice();
  }
  CHECK(n == 1 && polls >= 1);
  CHECK(read(data[0], &c, 1) == 1);
  check_exited(p, 0);
  printf("reads interrupted %d times, polls %d, handler ran %d times\n", interrupts, polls, caught);
  CHECK(caught >= 3);
  return guest_ok();
}
