// sendmsg and recvmsg with SCM_RIGHTS and SCM_CREDENTIALS: descriptors cross to a child; truncated control data.
#include "../guest.h"
#include <sys/socket.h>

union control {
  char buf[256];
  struct cmsghdr align;
};

static void send_fds(int sock, const int *fds, int n) {
  union control c;
  char byte = 'f';
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c.buf, .msg_controllen = CMSG_SPACE(n * 4ul)};
  memset(&c, 0, sizeof c);
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN(n * 4ul);
  memcpy(CMSG_DATA(h), fds, n * 4ul);
  CHECK(sendmsg(sock, &m, 0) == 1);
}

int main(void) {
  int s[2], one = 1, fds[3], cut = 0;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
  CHECK(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0);
  pid_t p = fork();
  if (p == 0) {
    for (int i = 0; i < 3; i++) {
      char name[2] = {(char)('a' + i), 0};
      make_file(name, name, 1);
      fds[i] = open(name, O_RDONLY);
    }
    send_fds(s[0], fds, 3);
    send_fds(s[0], fds, 3);
    _exit(0);
  }
  for (int round = 0; round < 2; round++) {
    union control c;
    char byte, x;
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c.buf, .msg_controllen = round ? CMSG_SPACE(12) + 4 : 256};
    CHECK(recvmsg(s[1], &m, MSG_CMSG_CLOEXEC) == 1 && byte == 'f');
    int got = 0, creds = 0;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
      if (h->cmsg_type == SCM_CREDENTIALS) {
        struct ucred u;
        memcpy(&u, CMSG_DATA(h), sizeof u);
        CHECK(u.pid == p);
        creds++;
      } else {
        CHECK(h->cmsg_type == SCM_RIGHTS);
        got = (int)((h->cmsg_len - CMSG_LEN(0)) / 4);
        memcpy(fds, CMSG_DATA(h), (size_t)got * 4);
        for (int i = 0; i < got; i++) CHECK(pread(fds[i], &x, 1, 0) == 1 && x == 'a' + i && fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
      }
    }
    CHECK(creds == 1);
    if (round == 0) CHECK(got == 3 && (m.msg_flags & MSG_CTRUNC) == 0);
    else cut = (m.msg_flags & MSG_CTRUNC) != 0;
  }
  check_exited(p, 0);
  CHECK(cut);
  printf("descriptors %d %d %d from %d\n", fds[0], fds[1], fds[2], p);
  return guest_ok();
}
