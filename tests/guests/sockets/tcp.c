// A TCP server and client over loopback: addresses, accept4, half close, bulk data, options, refusal.
#include "../guest.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int main(void) {
  int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, peer, me;
  socklen_t len = sizeof a;
  CHECK(l >= 0 && setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
  CHECK(bind(l, (struct sockaddr *)&a, sizeof a) == 0 && listen(l, 5) == 0);
  CHECK(getsockname(l, (struct sockaddr *)&a, &len) == 0 && len == sizeof a && a.sin_port != 0);
  pid_t p = fork();
  if (p == 0) {
    int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    CHECK(connect(c, (struct sockaddr *)&a, sizeof a) == 0);
    CHECK(setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    static char chunk[10000];
    memset(chunk, 'c', sizeof chunk);
    for (int i = 0; i < 50; i++)
      for (size_t done = 0; done < sizeof chunk;) {
        ssize_t n = write(c, chunk + done, sizeof chunk - done);
        CHECK(n > 0);
        done += (size_t)n;
      }
    CHECK(shutdown(c, SHUT_WR) == 0);
    char reply[32] = "";
    CHECK(recv(c, reply, 31, MSG_WAITALL) == 6 && strcmp(reply, "500000") == 0);
    _exit(0);
  }
  len = sizeof peer;
  int c = accept4(l, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
  CHECK(c >= 0 && peer.sin_addr.s_addr == a.sin_addr.s_addr && (fcntl(c, F_GETFD) & FD_CLOEXEC));
  len = sizeof me;
  CHECK(getsockname(c, (struct sockaddr *)&me, &len) == 0 && me.sin_port == a.sin_port);
  CHECK(getpeername(c, (struct sockaddr *)&me, &len) == 0 && me.sin_port == peer.sin_port);
  char buf[4096];
  long total = 0, reads = 0;
  ssize_t n;
  while ((n = read(c, buf, sizeof buf)) > 0) total += n, reads++;
  CHECK(n == 0 && total == 500000);
  CHECK(dprintf(c, "%ld", total) == 6 && close(c) == 0);
  check_exited(p, 0);
  CHECK(close(l) == 0);
  c = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_ERRNO(connect(c, (struct sockaddr *)&a, sizeof a), ECONNREFUSED);
  printf("port %d from %d, %ld reads\n", ntohs(a.sin_port), ntohs(peer.sin_port), reads);
  return guest_ok();
}
