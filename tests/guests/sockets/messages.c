// sendmsg and recvmsg with several buffers, names, timestamps and packet information.
#include "../guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(void) {
  int a = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
  struct sockaddr_in me = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
  socklen_t len = sizeof me;
  CHECK(bind(a, (struct sockaddr *)&me, sizeof me) == 0 && getsockname(a, (struct sockaddr *)&me, &len) == 0);
  CHECK(setsockopt(a, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) == 0);
  CHECK(setsockopt(a, IPPROTO_IP, IP_PKTINFO, &one, sizeof one) == 0);
  struct iovec out[3] = {{"scatter", 7}, {"-", 1}, {"gather", 6}};
  struct msghdr m = {.msg_name = &me, .msg_namelen = sizeof me, .msg_iov = out, .msg_iovlen = 3};
  CHECK(sendmsg(a, &m, 0) == 14);
  char x[5] = "", y[20] = "";
  struct iovec in[2] = {{x, 4}, {y, 19}};
  union {
    char buf[256];
    struct cmsghdr align;
  } c;
  m = (struct msghdr){.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = in, .msg_iovlen = 2, .msg_control = c.buf,
                      .msg_controllen = sizeof c.buf};
  CHECK(recvmsg(a, &m, 0) == 14 && strcmp(x, "scat") == 0 && strcmp(y, "ter-gather") == 0);
  CHECK(m.msg_namelen == sizeof from && from.sin_port == me.sin_port && m.msg_flags == 0);
  int stamps = 0, infos = 0;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
    if (h->cmsg_level == SOL_SOCKET) {
      struct timespec t;
      memcpy(&t, CMSG_DATA(h), sizeof t);
      CHECK(t.tv_sec > 1600000000);
      printf("arrived at %ld.%09ld\n", t.tv_sec, t.tv_nsec);
      stamps++;
    } else if (h->cmsg_type == IP_PKTINFO) {
      struct in_pktinfo info;
      memcpy(&info, CMSG_DATA(h), sizeof info);
      CHECK(info.ipi_addr.s_addr == me.sin_addr.s_addr);
      infos++;
    }
  }
  CHECK(stamps == 1 && infos == 1);
  m = (struct msghdr){.msg_iov = in, .msg_iovlen = 1};
  CHECK(sendto(a, "too long for it", 15, 0, (struct sockaddr *)&me, sizeof me) == 15);
  CHECK(recvmsg(a, &m, 0) == 4 && (m.msg_flags & MSG_TRUNC));
  return guest_ok();
}
