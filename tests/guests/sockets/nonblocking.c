// Nonblocking connect and accept: EAGAIN, EINPROGRESS or success, SO_ERROR, poll for writing.
#include "../guest.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

int main(void) {
  int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), err;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof a;
  CHECK(bind(l, (struct sockaddr *)&a, sizeof a) == 0 && listen(l, 5) == 0);
  CHECK(getsockname(l, (struct sockaddr *)&a, &len) == 0);
  CHECK_ERRNO(accept(l, NULL, NULL), EAGAIN);
  int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int r = connect(c, (struct sockaddr *)&a, sizeof a);
  CHECK(r == 0 || errno == EINPROGRESS);
  struct pollfd p[2] = {{c, POLLOUT, 0}, {l, POLLIN, 0}};
  CHECK(poll(p, 1, 5000) == 1 && p[0].revents == POLLOUT);
  len = sizeof err;
  CHECK(getsockopt(c, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err == 0);
  CHECK(poll(p + 1, 1, 5000) == 1);
  int s = accept(l, NULL, NULL);
  CHECK(s >= 0);
  char buf[4096] = "";
  CHECK_ERRNO(read(c, buf, 1), EAGAIN);
  long total = 0;
  ssize_t n;
  while ((n = write(c, buf, sizeof buf)) > 0) total += n;
  CHECK(n == -1 && errno == EAGAIN && total > 10000);
  p[0].events = POLLOUT | POLLIN;
  CHECK(poll(p, 1, 0) == 0);
  long got = 0;
  while (got < total) {
    CHECK((n = read(s, buf, sizeof buf)) > 0);
    got += n;
  }
  CHECK(poll(p, 1, 5000) == 1 && (p[0].revents & POLLOUT));
  struct linger linger = {1, 0};
  CHECK(setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0 && close(s) == 0);
  CHECK(poll(p, 1, 5000) == 1 && (p[0].revents & POLLHUP));
  CHECK_ERRNO(read(c, buf, 1), ECONNRESET);
  printf("connect gave %d, the buffers took %ld\n", r, total);
  return guest_ok();
}
