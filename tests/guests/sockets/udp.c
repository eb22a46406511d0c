// UDP over loopback: sendto, recvfrom with addresses, truncation, connected sockets, sendmmsg and recvmmsg.
#include "../guest.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void) {
  int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from, mine;
  socklen_t len = sizeof to;
  CHECK(bind(a, (struct sockaddr *)&to, sizeof to) == 0 && getsockname(a, (struct sockaddr *)&to, &len) == 0);
  CHECK(sendto(b, "datagram", 8, 0, (struct sockaddr *)&to, sizeof to) == 8);
  char buf[64];
  len = sizeof from;
  CHECK(recvfrom(a, buf, 64, 0, (struct sockaddr *)&from, &len) == 8 && len == sizeof from);
  len = sizeof mine;
  CHECK(getsockname(b, (struct sockaddr *)&mine, &len) == 0 && mine.sin_port == from.sin_port);
  CHECK(connect(b, (struct sockaddr *)&to, sizeof to) == 0 && send(b, "0123456789", 10, 0) == 10);
  CHECK(recv(a, buf, 4, MSG_TRUNC) == 10);
  char texts[5][8], in[5][8];
  struct iovec vo[5], vi[5];
  struct mmsghdr mo[5] = {0}, mi[5] = {0};
  struct sockaddr_in names[5];
  for (int i = 0; i < 5; i++) {
    memset(texts[i], 'a' + i, 8);
    vo[i] = (struct iovec){texts[i], (size_t)i + 1};
    vi[i] = (struct iovec){in[i], 8};
    mo[i].msg_hdr.msg_iov = &vo[i], mo[i].msg_hdr.msg_iovlen = 1;
    mi[i].msg_hdr.msg_iov = &vi[i], mi[i].msg_hdr.msg_iovlen = 1;
    mi[i].msg_hdr.msg_name = &names[i], mi[i].msg_hdr.msg_namelen = sizeof names[i];
  }
  CHECK(sendmmsg(b, mo, 5, 0) == 5 && mo[4].msg_len == 5);
  int n = recvmmsg(a, mi, 5, MSG_DONTWAIT, NULL);
  CHECK(n == 5);
  for (int i = 0; i < 5; i++) {
    CHECK(mi[i].msg_len == (unsigned)i + 1 && in[i][i] == 'a' + i);
    CHECK(names[i].sin_port == from.sin_port && mi[i].msg_hdr.msg_namelen == sizeof from);
  }
  CHECK(recvmmsg(a, mi, 5, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
  struct timespec t = {0, 5000000};
  CHECK(send(b, "x", 1, 0) == 1 && recvmmsg(a, mi, 5, MSG_WAITFORONE, &t) == 1);
  printf("ports %d %d\n", ntohs(to.sin_port), ntohs(from.sin_port));
  return guest_ok();
}
