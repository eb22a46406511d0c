// cflags: -m32
// needs: /usr/lib32/crt1.o
// Messages with several buffers, and descriptors and credentials in them.
#include "../guest.h"
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static void send_with(int socket, int fd) {
  char room[CMSG_SPACE(sizeof fd)];
  memset(room, 0, sizeof room);
  struct iovec parts[] = {{"hel", 3}, {"lo", 2}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *control = CMSG_FIRSTHDR(&message);
  *control = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(control), &fd, sizeof fd);
  CHECK(sendmsg(socket, &message, 0) == 5);
}

// Returns the descriptor that came, and says whether credentials came before it.
static int receive(int socket, size_t space, bool *has_credentials) {
  char room[256], a[2], b[10];
  CHECK(space <= sizeof room);
  struct iovec parts[] = {{a, 2}, {b, 10}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = room, .msg_controllen = space};
  CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 5 && memcmp(a, "he", 2) == 0 && memcmp(b, "llo", 3) == 0);
  CHECK(!(message.msg_flags & MSG_CTRUNC));
  int fd = -1;
  *has_credentials = false;
  for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(at), sizeof fd);
    if (at->cmsg_type == SCM_CREDENTIALS) {
      struct ucred who;
      memcpy(&who, CMSG_DATA(at), sizeof who);
      CHECK(who.pid == getpid() && who.uid == getuid() && who.gid == getgid());
      *has_credentials = true;
    }
  }
  return fd;
}

int main(void) {
  int pair[2], ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ends) == 0);
  bool has_credentials;
  send_with(pair[0], ends[1]);
  int fd = receive(pair[1], CMSG_SPACE(sizeof(int)), &has_credentials);
  CHECK(fd >= 0 && !has_credentials && fcntl(fd, F_GETFD) == FD_CLOEXEC);
  char got[8];
  CHECK(write(fd, "by the copy", 3) == 3 && read(ends[0], got, 8) == 3 && memcmp(got, "by ", 3) == 0);
  CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) == 0);
  send_with(pair[0], ends[1]);
  fd = receive(pair[1], CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)), &has_credentials);
  CHECK(fd >= 0 && has_credentials);
  // Times of options.
  struct timeval time = {0, 20000};
  socklen_t len = sizeof time;
  CHECK(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
  CHECK(getsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &time, &len) == 0 && len == sizeof time && time.tv_usec == 20000);
  CHECK_ERRNO(recv(pair[1], got, 8, 0), EAGAIN);
  // Several messages at once.
  int grams[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, grams) == 0);
  struct iovec parts[] = {{"one", 3}, {"three", 5}};
  struct mmsghdr out[] = {{{.msg_iov = parts, .msg_iovlen = 1}, 0}, {{.msg_iov = parts + 1, .msg_iovlen = 1}, 0}};
  CHECK(sendmmsg(grams[0], out, 2, 0) == 2 && out[0].msg_len == 3 && out[1].msg_len == 5);
  char first[10], second[10];
  struct iovec rooms[] = {{first, 10}, {second, 10}};
  struct mmsghdr in[] = {{{.msg_iov = rooms, .msg_iovlen = 1}, 0}, {{.msg_iov = rooms + 1, .msg_iovlen = 1}, 0}};
  CHECK(recvmmsg(grams[1], in, 2, 0, &(struct timespec){1, 0}) == 2);
  CHECK(in[0].msg_len == 3 && in[1].msg_len == 5 && memcmp(second, "three", 5) == 0);
  // A server that is reached by a path, in a child.
  struct sockaddr_un name = {AF_UNIX, "socket"};
  int server = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(server, (struct sockaddr *)&name, sizeof name) == 0 && listen(server, 5) == 0);
  pid_t child = fork();
  if (child == 0) {
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(client, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(send(client, "question", 8, 0) == 8 && recv(client, got, 6, MSG_WAITALL) == 6);
    CHECK(memcmp(got, "answer", 6) == 0);
    _exit(0);
  }
  struct sockaddr_un from;
  len = sizeof from;
  int client = accept(server, (struct sockaddr *)&from, &len);
  CHECK(client >= 0 && len == 2 && recv(client, got, 8, MSG_WAITALL) == 8 && memcmp(got, "question", 8) == 0);
  CHECK(send(client, "answer", 6, 0) == 6);
  check_exited(child, 0);
  // An interface.
  int inet = socket(AF_INET, SOCK_DGRAM, 0);
  struct ifreq request = {.ifr_name = "lo"};
  CHECK(inet >= 0 && ioctl(inet, SIOCGIFINDEX, &request) == 0 && request.ifr_ifindex == 1);
  puts("all messages came");
  return guest_ok();
}
