// recvmsg and sendmmsg: names and control data with too little room, descriptors and credentials, headers that are
// overwritten by what they ask for, and what a nonblocking socket says.
#include "rounds.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static char *end;

static void send_fd(int s, int fd) {
  char room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec v = {"fd", 2};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  CHECK(sendmsg(s, &m, 0) == 2);
}

static void streams(void) {
  int s[2], on = 1;
  char data[16], control[128];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
  struct iovec v[2] = {{data, 1}, {data + 8, 4}};
  struct msghdr m = {.msg_iov = v, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
  memset(control, 0x55, sizeof control);
  int file = open("file", O_RDWR | O_CREAT, 0600);
  send_fd(s[0], file);
  CHECK(recvmsg(s[1], &m, MSG_CMSG_CLOEXEC) == 2 && data[0] == 'f' && data[8] == 'd' && m.msg_flags == MSG_CMSG_CLOEXEC);
  CHECK(m.msg_controllen == CMSG_SPACE(4) && control[CMSG_SPACE(4)] == 0x55 && control[CMSG_LEN(4)] == 0x55);
  int got;
  memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), 4);
  struct stat st, st2;
  CHECK(fstat(got, &st) == 0 && fstat(file, &st2) == 0 && st.st_ino == st2.st_ino && fcntl(got, F_GETFD) == FD_CLOEXEC);
  CHECK(write(got, "x", 1) == 1 && close(got) == 0);
  // No room for the descriptor.
  send_fd(s[0], file);
  m.msg_controllen = 4;
  CHECK(recvmsg(s[1], &m, 0) == 2 && (m.msg_flags & MSG_CTRUNC));
  // No header for control data at all, and only a look.
  CHECK(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 && send(s[0], "look", 4, 0) == 4);
  struct msghdr bare = {.msg_iov = v, .msg_iovlen = 2};
  CHECK(recvmsg(s[1], &bare, MSG_PEEK) == 4 && (bare.msg_flags & MSG_CTRUNC) && !memcmp(data + 8, "ook", 3));
  m.msg_controllen = sizeof control;
  CHECK(recvmsg(s[1], &m, 0) == 4 && m.msg_controllen == CMSG_SPACE(sizeof(struct ucred)));
  struct ucred who;
  memcpy(&who, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof who);
  CHECK(who.pid == getpid() && who.uid == getuid());
  CHECK_ERRNO(recvmsg(s[1], &m, MSG_DONTWAIT), EAGAIN);
  CHECK(fcntl(s[1], F_SETFL, O_NONBLOCK) == 0);
  CHECK_ERRNO(recvmsg(s[1], &m, 0), EAGAIN);
  CHECK_ERRNO(recv(s[1], data, 4, 0), EAGAIN);
  CHECK_ERRNO(read(s[1], data, 4), EAGAIN);
  CHECK(send(s[0], "1234", 4, 0) == 4);
  CHECK_ERRNO(recvmsg(s[1], (void *)(end - 8), 0), EFAULT);
  CHECK(recv(s[1], data, 4, MSG_WAITALL) == 4);
  CHECK(shutdown(s[0], SHUT_WR) == 0 && recvmsg(s[1], &bare, 0) == 0);
  CHECK(close(s[0]) == 0 && close(s[1]) == 0 && close(file) == 0);
}

static void datagrams(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
  socklen_t len = sizeof at;
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(s >= 0 && bind(s, (void *)&at, len) == 0 && getsockname(s, (void *)&at, &len) == 0 && len == sizeof at);
  char data[32];
  struct iovec v = {data, 4};
  memset(&from, 0x66, sizeof from);
  struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &v, .msg_iovlen = 1};
  CHECK(sendto(s, "abcdefgh", 8, 0, (void *)&at, len) == 8);
  CHECK(recvmsg(s, &m, 0) == 4 && m.msg_flags == MSG_TRUNC && m.msg_namelen == len && from.sin_port == at.sin_port);
  // A name with too little room is cut, and its length told.
  memset(&from, 0x66, sizeof from), m.msg_namelen = 4;
  CHECK(sendto(s, "abcd", 4, 0, (void *)&at, len) == 4 && recvmsg(s, &m, 0) == 4 && m.msg_flags == 0);
  CHECK(m.msg_namelen == len && from.sin_port == at.sin_port && ((char *)&from)[4] == 0x66);
  // The length of what came, whatever the room: MSG_TRUNC.
  CHECK(sendto(s, "abcdefgh", 8, 0, (void *)&at, len) == 8 && recvmsg(s, &m, MSG_TRUNC) == 8);
  // Nothing at all is a message too.
  m.msg_name = NULL, m.msg_namelen = 77, m.msg_iovlen = 0;
  CHECK(sendto(s, "", 0, 0, (void *)&at, len) == 0 && recvmsg(s, &m, 0) == 0 && m.msg_namelen == 77);
  // The data overwrite what the header says of the vectors: the kernel has read it before.
  struct msghdr self = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iovlen = 1};
  struct iovec over = {&self.msg_iov, 16};
  self.msg_iov = &over;
  memset(data, 'z', sizeof data);
  CHECK(sendto(s, data, 16, 0, (void *)&at, len) == 16 && recvmsg(s, &self, 0) == 16);
  CHECK(self.msg_namelen == len && self.msg_flags == 0 && self.msg_controllen == 0 && (char)self.msg_iovlen == 'z');
  struct mmsghdr two[2] = {0};
  struct iovec parts[2] = {{"one", 3}, {"three", 5}};
  for (int i = 0; i < 2; i++) two[i].msg_hdr = (struct msghdr){&at, len, &parts[i], 1, NULL, 0, 0}, two[i].msg_len = 99;
  CHECK(sendmmsg(s, two, 2, 0) == 2 && two[0].msg_len == 3 && two[1].msg_len == 5);
  CHECK(recv(s, data, 32, 0) == 3 && recv(s, data, 32, 0) == 5 && !memcmp(data, "three", 5));
  CHECK_ERRNO(recv(s, data, 32, MSG_DONTWAIT), EAGAIN);
  CHECK_ERRNO(recvmsg(-1, &m, 0), EBADF);
  CHECK(close(s) == 0);
}

static void check(int round) {
  streams();
  datagrams();
  printf("round %d: %ld\n", round, (long)now_ns());
}

int main(void) {
  end = edge();
  rounds(check);
  return guest_ok();
}
