// poll, ppoll, select and pselect agree about readable, writable, closed and bad descriptors; timeouts count down.
#include "../guest.h"
#include <poll.h>
#include <sys/select.h>

int main(void) {
  int a[2], b[2];
  CHECK(pipe(a) == 0 && pipe(b) == 0);
  struct pollfd p[4] = {{a[0], POLLIN, 0}, {a[1], POLLOUT, 0}, {-1, POLLIN, 9}, {777, POLLIN, 0}};
  CHECK(poll(p, 4, 1000) == 2 && p[0].revents == 0 && p[1].revents == POLLOUT && p[2].revents == 0 && p[3].revents == POLLNVAL);
  CHECK(write(a[1], "x", 1) == 1 && close(b[1]) == 0);
  p[2].fd = b[0];
  CHECK(poll(p, 3, -1) == 3 && p[0].revents == POLLIN && p[2].revents == POLLHUP);
  fd_set r, w, x;
  FD_ZERO(&r);
  FD_ZERO(&w);
  FD_ZERO(&x);
  FD_SET(a[0], &r);
  FD_SET(b[0], &r);
  FD_SET(a[1], &w);
  FD_SET(a[0], &x);
  struct timeval tv = {3, 0};
  CHECK(select(20, &r, &w, &x, &tv) == 3 && FD_ISSET(a[0], &r) && FD_ISSET(b[0], &r) && FD_ISSET(a[1], &w) && !FD_ISSET(a[0], &x));
  CHECK(tv.tv_sec <= 3 && tv.tv_sec >= 2);
  long left = tv.tv_usec;
  char c;
  CHECK(read(a[0], &c, 1) == 1);
  FD_ZERO(&r);
  FD_SET(a[0], &r);
  struct timespec ts = {0, 10000000};
  CHECK(pselect(20, &r, NULL, NULL, &ts, NULL) == 0 && !FD_ISSET(a[0], &r) && ts.tv_nsec == 10000000);
  int gone = dup(a[0]);
  CHECK(gone > 0 && close(gone) == 0);
  FD_SET(gone, &r);
  tv = (struct timeval){0, 0};
  CHECK_ERRNO(select(20, &r, NULL, NULL, &tv), EBADF);
  ts.tv_nsec = 1000000;
  p[0].revents = 0;
  CHECK(ppoll(p, 1, &ts, NULL) == 0);
  printf("left %ld us\n", left);
  return guest_ok();
}
