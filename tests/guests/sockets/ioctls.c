// ioctls on sockets and files: FIONREAD, FIONBIO, FIOCLEX, interface list and netlink's answer about loopback.
#include "../guest.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void) {
  int s[2], n, on = 1;
  char c;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && write(s[0], "12345", 5) == 5);
  CHECK(ioctl(s[1], FIONREAD, &n) == 0 && n == 5);
  CHECK(ioctl(s[0], FIONBIO, &on) == 0 && (fcntl(s[0], F_GETFL) & O_NONBLOCK));
  CHECK_ERRNO(read(s[0], &c, 1), EAGAIN);
  CHECK(ioctl(s[0], FIOCLEX) == 0 && fcntl(s[0], F_GETFD) == FD_CLOEXEC);
  int i = socket(AF_INET, SOCK_DGRAM, 0);
  struct ifreq reqs[16], one = {0};
  struct ifconf conf = {.ifc_len = sizeof reqs, .ifc_req = reqs};
  CHECK(ioctl(i, SIOCGIFCONF, &conf) == 0);
  strcpy(one.ifr_name, "lo");
  CHECK(ioctl(i, SIOCGIFFLAGS, &one) == 0 && (one.ifr_flags & IFF_LOOPBACK));
  CHECK(ioctl(i, SIOCGIFINDEX, &one) == 0 && one.ifr_ifindex == (int)if_nametoindex("lo"));
  CHECK_ERRNO(ioctl(i, 0x12345678, &one), ENOTTY);
  int nl = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  CHECK(nl >= 0);
  struct {
    struct nlmsghdr h;
    struct rtgenmsg g;
  } ask = {{sizeof ask, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
  CHECK(send(nl, &ask, sizeof ask, 0) == sizeof ask);
  static char buf[32768] __attribute__((aligned(8)));
  ssize_t r = recv(nl, buf, sizeof buf, 0);
  CHECK(r > 0 && ((struct nlmsghdr *)buf)->nlmsg_type == RTM_NEWLINK);
  printf("%d bytes of interfaces, %zd of links\n", conf.ifc_len, r);
  return guest_ok();
}
