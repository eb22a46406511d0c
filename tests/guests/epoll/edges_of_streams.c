// epoll(7): with EPOLLET, a read or write of a stream that moved less than it was asked to says that there is no more, and that
// the next edge is still to come. Event loops rely on it, and wait. For TCP, a local stream and a pipe.
#include "../guest.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { ROUNDS = 60, LEN = 100 };

struct peer {
  int in, out;
};

// Sends a message, and gets it back, in whatever pieces.
static void *client(void *arg) {
  struct peer peer = *(struct peer *)arg;
  char out[LEN], in[LEN];
  for (int i = 0; i < ROUNDS; i++) {
    memset(out, i, LEN);
    for (int n = 0, k; n < LEN; n += k) CHECK((k = write(peer.out, out + n, LEN - n)) > 0);
    for (int n = 0, k; n < LEN; n += k) CHECK((k = read(peer.in, in + n, LEN - n)) > 0);
    CHECK(memcmp(in, out, LEN) == 0);
  }
  // The other end reads nothing, then.
  if (peer.in == peer.out) shutdown(peer.out, SHUT_WR);
  else close(peer.out);
  return NULL;
}

// Sends back what comes, by edges alone.
static long echo(struct peer own) {
  int epoll = epoll_create1(0), is_one = own.in == own.out;
  CHECK(epoll >= 0);
  struct epoll_event in = {EPOLLIN | EPOLLET | (is_one ? EPOLLOUT : 0), {.u32 = 0}}, out = {EPOLLOUT | EPOLLET, {.u32 = 1}};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, own.in, &in) == 0);
  // As a later wish, too.
  if (!is_one) {
    out.events = EPOLLOUT;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, own.out, &out) == 0);
    out.events |= EPOLLET;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, own.out, &out) == 0);
  }
  static char buf[4096];
  long total = 0;
  int len = 0, off = 0, can_read = 0, can_write = 0;
  for (;;) {
    if (can_read && !len) {
      ssize_t k = read(own.in, buf, sizeof buf);
      if (k == 0) break;
      CHECK(k > 0 || errno == EAGAIN);
      can_read = k == sizeof buf;
      if (k > 0) len = (int)k, off = 0;
    }
    if (can_write && len) {
      ssize_t k = write(own.out, buf + off, len);
      CHECK(k > 0 || errno == EAGAIN);
      can_write = k == len;
      if (k > 0) total += k, off += k, len -= k;
    }
    if ((can_read && !len) || (can_write && len)) continue;
    struct epoll_event event;
    CHECK(epoll_wait(epoll, &event, 1, 20000) == 1);
    can_read |= (event.events & (EPOLLIN | EPOLLHUP)) != 0;
    can_write |= (event.events & EPOLLOUT) != 0;
  }
  CHECK(close(epoll) == 0);
  return total;
}

static void tcp(int pair[2]) {
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t len = sizeof addr;
  CHECK(bind(listener, (void *)&addr, len) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, (void *)&addr, &len) == 0);
  CHECK((pair[0] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
  CHECK(connect(pair[0], (void *)&addr, len) == 0);
  CHECK((pair[1] = accept(listener, NULL, NULL)) >= 0 && close(listener) == 0);
  for (int i = 0; i < 2; i++) CHECK(setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
}

int main(void) {
  for (int kind = 0; kind < 3; kind++) {
    struct peer own, other;
    int there[2], back[2];
    if (kind == 2) {
      CHECK(pipe(there) == 0 && pipe(back) == 0);
      own = (struct peer){there[0], back[1]};
      other = (struct peer){back[0], there[1]};
    } else {
      if (kind == 0) tcp(there);
      else CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, there) == 0);
      own = (struct peer){there[1], there[1]};
      other = (struct peer){there[0], there[0]};
    }
    CHECK(fcntl(own.in, F_SETFL, O_NONBLOCK) == 0 && fcntl(own.out, F_SETFL, O_NONBLOCK) == 0);
    pthread_t thread = start_thread(client, &other);
    long total = echo(own);
    join_thread(thread);
    CHECK(total == ROUNDS * LEN);
    printf("kind %d: %ld bytes\n", kind, total);
    close(own.in);
    if (own.out != own.in) close(own.out);
    close(other.in);
  }
  return guest_ok();
}
