// MSG_ZEROCOPY and its completions on the error queue; a refused datagram's error there.
#include "../guest.h"
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

static struct sock_extended_err take_error(int fd) {
  char control[256], data[64];
  struct sockaddr_in from;
  struct iovec v = {data, sizeof data};
  struct msghdr m = {&from, sizeof from, &v, 1, control, sizeof control, 0};
  struct pollfd p = {fd, 0, 0};
  CHECK(poll(&p, 1, 5000) == 1 && (p.revents & POLLERR));
  CHECK(recvmsg(fd, &m, MSG_ERRQUEUE) >= 0 && (m.msg_flags & MSG_ERRQUEUE));
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  CHECK(c && c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR);
  struct sock_extended_err e;
  memcpy(&e, CMSG_DATA(c), sizeof e);
  return e;
}

int main(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof a;
  int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  CHECK(bind(l, (struct sockaddr *)&a, len) == 0 && listen(l, 1) == 0);
  CHECK(getsockname(l, (struct sockaddr *)&a, &len) == 0 && connect(c, (struct sockaddr *)&a, len) == 0);
  int s = accept(l, NULL, NULL);
  CHECK(s >= 0);
  char *data = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), got[4 * PAGE];
  for (int i = 0; i < 4 * PAGE; i++) data[i] = (char)(i % 251);
  bool zerocopy = setsockopt(c, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0;
  CHECK(send(c, data, 4 * PAGE, zerocopy ? MSG_ZEROCOPY : 0) == 4 * PAGE);
  CHECK(recv(s, got, 4 * PAGE, MSG_WAITALL) == 4 * PAGE && memcmp(got, data, 4 * PAGE) == 0);
  struct sock_extended_err e = {0};
  if (zerocopy) {
    e = take_error(c);
    CHECK(e.ee_origin == SO_EE_ORIGIN_ZEROCOPY && e.ee_info == 0 && e.ee_data == 0 && e.ee_errno == 0);
  }
  printf("port %d, zerocopy %d, code %d\n", ntohs(a.sin_port), zerocopy, e.ee_code);

  // Nobody listens where this datagram goes.
  int u = socket(AF_INET, SOCK_DGRAM, 0), closed = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in b = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  CHECK(bind(closed, (struct sockaddr *)&b, len) == 0 && getsockname(closed, (struct sockaddr *)&b, &len) == 0);
  CHECK(close(closed) == 0);
  CHECK(setsockopt(u, SOL_IP, IP_RECVERR, &one, sizeof one) == 0);
  CHECK(sendto(u, "lost", 4, 0, (struct sockaddr *)&b, len) == 4);
  e = take_error(u);
  CHECK(e.ee_errno == ECONNREFUSED && e.ee_origin == SO_EE_ORIGIN_ICMP);
  CHECK_ERRNO(recv(u, got, 1, MSG_ERRQUEUE), EAGAIN);
  return guest_ok();
}
