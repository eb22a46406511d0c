// socketpair of each type: stream, datagram and packet boundaries, shutdown, peer credentials, options.
#include "../guest.h"
#include <sys/socket.h>

int main(void) {
  int s[2], d[2], q[2], v;
  char buf[32];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, d) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, q) == 0);
  CHECK(write(s[0], "ab", 2) == 2 && send(s[0], "cd", 2, 0) == 2);
  CHECK(recv(s[1], buf, 32, MSG_PEEK) == 4 && read(s[1], buf, 32) == 4 && memcmp(buf, "abcd", 4) == 0);
  CHECK(send(d[0], "one", 3, 0) == 3 && send(d[0], "three", 5, 0) == 5 && send(d[0], "", 0, 0) == 0);
  CHECK(recv(d[1], buf, 32, 0) == 3 && recv(d[1], buf, 2, MSG_TRUNC) == 5 && recv(d[1], buf, 32, 0) == 0);
  CHECK(send(q[0], "packet", 6, MSG_EOR) == 6 && recv(q[1], buf, 3, 0) == 3);
  CHECK_ERRNO(recv(q[1], buf, 3, MSG_DONTWAIT), EAGAIN);
  CHECK(shutdown(s[0], SHUT_WR) == 0 && read(s[1], buf, 1) == 0);
  CHECK(write(s[1], "back", 4) == 4 && recv(s[0], buf, 4, MSG_WAITALL) == 4);
  struct ucred cred;
  socklen_t len = sizeof cred;
  CHECK(getsockopt(s[0], SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.pid == getpid());
  len = sizeof v;
  CHECK(getsockopt(q[0], SOL_SOCKET, SO_TYPE, &v, &len) == 0 && v == SOCK_SEQPACKET && len == 4);
  v = 20000;
  CHECK(setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &v, sizeof v) == 0);
  CHECK(getsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &v, &len) == 0 && v >= 20000);
  struct timeval tv = {0, 10000};
  CHECK(setsockopt(d[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) == 0);
  CHECK_ERRNO(recv(d[0], buf, 1, 0), EAGAIN);
  CHECK_ERRNO(getsockopt(s[0], SOL_SOCKET, 9999, &v, &len), ENOPROTOOPT);
  printf("pid %d uid %d\n", cred.pid, cred.uid);
  return guest_ok();
}
