// SPLICE_F_NONBLOCK speaks of the pipe only: a splice to a terminal waits all the same until somebody reads there, and
// who reads is another thread.
#include "../guest.h"
#include <termios.h>

enum { LEN = 48 << 10 };
static int master, slave, pipes[2];

static void *feed(void *arg) {
  static char data[LEN];
  memset(data, 'a', LEN);
  CHECK(write(pipes[1], data, LEN) == LEN);
  for (int sent = 0; sent < LEN;) {
    ssize_t n = splice(pipes[0], NULL, slave, NULL, LEN - sent, SPLICE_F_NONBLOCK);
    if (n < 0 && errno == EINVAL) {
      // This kernel does not splice to terminals.
      n = read(pipes[0], data, LEN - sent);
      CHECK(n > 0 && write(slave, data, n) == n);
    }
    CHECK(n > 0);
    sent += n;
  }
  return arg;
}

int main(void) {
  CHECK((master = posix_openpt(O_RDWR | O_NOCTTY)) >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  CHECK((slave = open(ptsname(master), O_RDWR | O_NOCTTY)) >= 0);
  struct termios raw;
  CHECK(tcgetattr(slave, &raw) == 0);
  cfmakeraw(&raw);
  CHECK(tcsetattr(slave, TCSANOW, &raw) == 0 && pipe(pipes) == 0);
  pthread_t t;
  CHECK(pthread_create(&t, NULL, feed, NULL) == 0);
  char buf[512];
  for (int got = 0; got < LEN;) {
    ssize_t n = read(master, buf, sizeof buf);
    CHECK(n > 0);
    got += n;
  }
  CHECK(pthread_join(t, NULL) == 0);
  return guest_ok();
}
