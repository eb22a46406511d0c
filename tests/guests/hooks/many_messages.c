// recvmmsg: several messages at once, with names and control data, with too little room, with nothing to say; what it leaves
// alone, and when it waits.
#include "rounds.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { MANY = 6, ROOM = 40 };

static char *end;
static struct mmsghdr got[MANY];
static struct iovec parts[MANY][2];
static char data[MANY][ROOM], control[MANY][64];
static struct sockaddr_in from[MANY];

static void prepare(bool with_names) {
  memset(data, 'z', sizeof data), memset(control, 'c', sizeof control), memset(from, 'n', sizeof from);
  for (int i = 0; i < MANY; i++) {
    parts[i][0] = (struct iovec){data[i], 3};
    parts[i][1] = (struct iovec){data[i] + 8, ROOM - 8};
    got[i].msg_hdr = (struct msghdr){.msg_iov = parts[i], .msg_iovlen = 2, .msg_flags = 0x7777};
    if (with_names) got[i].msg_hdr.msg_name = &from[i], got[i].msg_hdr.msg_namelen = sizeof from[i];
    got[i].msg_len = 99;
  }
}

static void check_one(int i, const char *what, size_t len) {
  CHECK(got[i].msg_len == len && memcmp(data[i], what, len < 3 ? len : 3) == 0);
  if (len > 3) CHECK(memcmp(data[i] + 8, what + 3, len - 3) == 0);
  CHECK(data[i][len < 3 ? len : 3] == 'z' && data[i][7] == 'z');
}

static void datagrams(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int s = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
  CHECK(s >= 0 && bind(s, (void *)&at, len) == 0 && getsockname(s, (void *)&at, &len) == 0);
  CHECK(setsockopt(s, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on) == 0);
  const char *words[] = {"one", "fourteen bytes", "", "ab"};
  for (int i = 0; i < 4; i++) CHECK(sendto(s, words[i], strlen(words[i]), 0, (void *)&at, len) >= 0);
  prepare(true);
  got[1].msg_hdr.msg_control = control[1], got[1].msg_hdr.msg_controllen = sizeof control[1];
  got[2].msg_hdr.msg_namelen = 4;
  // All that there is, and no more: those behind are as they were.
  CHECK(recvmmsg(s, got, MANY, MSG_DONTWAIT, NULL) == 4);
  for (int i = 0; i < 4; i++) {
    check_one(i, words[i], strlen(words[i]));
    CHECK(got[i].msg_hdr.msg_namelen == len && from[i].sin_port == at.sin_port);
    CHECK(got[i].msg_hdr.msg_iov == parts[i] && got[i].msg_hdr.msg_iovlen == 2);
  }
  CHECK(got[0].msg_hdr.msg_flags == MSG_CTRUNC && got[1].msg_hdr.msg_flags == 0);
  CHECK(got[1].msg_hdr.msg_controllen == CMSG_SPACE(sizeof(struct timeval)) && control[1][63] == 'c');
  CHECK(((char *)&from[2])[4] == 'n' && ((char *)&from[1])[8] == 0);
  CHECK(got[4].msg_len == 99 && got[4].msg_hdr.msg_flags == 0x7777 && data[4][0] == 'z' && got[4].msg_hdr.msg_namelen == len);
  CHECK_ERRNO(recvmmsg(s, got, MANY, MSG_DONTWAIT, NULL), EAGAIN);
  // What does not fit is cut, and the header says so; the second is not asked for.
  CHECK(sendto(s, "0123456789", 10, 0, (void *)&at, len) == 10 && sendto(s, "next", 4, 0, (void *)&at, len) == 4);
  prepare(false);
  got[0].msg_hdr.msg_iovlen = 1;
  CHECK(recvmmsg(s, got, 1, 0, NULL) == 1 && got[0].msg_len == 3 && (got[0].msg_hdr.msg_flags & MSG_TRUNC));
  CHECK(got[0].msg_hdr.msg_namelen == 0 && got[1].msg_len == 99);
  // One that is there is enough, whatever the room.
  CHECK(recvmmsg(s, got, MANY, MSG_WAITFORONE, NULL) == 1 && got[0].msg_len == 3 && !memcmp(data[0], "nex", 3));
  // With all of them there, it does not wait.
  for (int i = 0; i < 3; i++) CHECK(sendto(s, words[i], strlen(words[i]), 0, (void *)&at, len) >= 0);
  prepare(true);
  CHECK(recvmmsg(s, got, 3, 0, NULL) == 3);
  for (int i = 0; i < 3; i++) check_one(i, words[i], strlen(words[i]));
  // The length of what came, and looks without taking.
  CHECK(sendto(s, "0123456789", 10, 0, (void *)&at, len) == 10);
  prepare(true);
  CHECK(recvmmsg(s, got, 2, MSG_PEEK | MSG_DONTWAIT, NULL) == 2 && got[1].msg_len == 10);
  got[0].msg_hdr.msg_iovlen = 1;
  CHECK(recvmmsg(s, got, 1, MSG_TRUNC, NULL) == 1 && got[0].msg_len == 10);
  // A limit to its time, where it need not wait.
  struct timespec limit = {5, 0};
  CHECK(sendto(s, "in time", 7, 0, (void *)&at, len) == 7);
  prepare(true);
  CHECK(recvmmsg(s, got, MANY, MSG_WAITFORONE, &limit) == 1 && limit.tv_sec <= 5);
  check_one(0, "in time", 7);
  // Nothing at all; places that are not there.
  CHECK(recvmmsg(s, got, 0, MSG_DONTWAIT, NULL) == 0);
  CHECK(sendto(s, "still here", 10, 0, (void *)&at, len) == 10);
  CHECK_ERRNO(recvmmsg(s, (void *)(end - 8), 1, MSG_DONTWAIT, NULL), EFAULT);
  prepare(true);
  parts[0][1].iov_base = (void *)(uintptr_t)end;
  CHECK_ERRNO(recvmmsg(s, got, 2, MSG_DONTWAIT, NULL), EFAULT);
  for (int i = 0; i < 2; i++) CHECK(sendto(s, words[i], strlen(words[i]), 0, (void *)&at, len) >= 0);
  while (recv(s, data[0], ROOM, MSG_DONTWAIT) >= 0) continue;
  CHECK(errno == EAGAIN);
  CHECK_ERRNO(recvmmsg(-1, got, 1, 0, NULL), EBADF);
  CHECK_ERRNO(recvmmsg(0x7fff, got, 2, 0, NULL), EBADF);
  CHECK(close(s) == 0);
}

static void descriptors_and_streams(void) {
  int s[2], on = 1;
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) == 0 && setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
  int file = open("file", O_RDWR | O_CREAT, 0600);
  char room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec v = {"fd", 2};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &file, sizeof file);
  CHECK(sendmsg(s[0], &m, 0) == 2 && send(s[0], "bare", 4, 0) == 4);
  prepare(false);
  got[0].msg_hdr.msg_control = control[0], got[0].msg_hdr.msg_controllen = sizeof control[0];
  CHECK(recvmmsg(s[1], got, MANY, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL) == 2);
  check_one(0, "fd", 2), check_one(1, "bare", 4);
  int passed = -1;
  bool told = false;
  for (c = CMSG_FIRSTHDR(&got[0].msg_hdr); c; c = CMSG_NXTHDR(&got[0].msg_hdr, c)) {
    if (c->cmsg_type == SCM_RIGHTS) memcpy(&passed, CMSG_DATA(c), 4);
    if (c->cmsg_type == SCM_CREDENTIALS) told = ((struct ucred *)(void *)CMSG_DATA(c))->pid == getpid();
  }
  CHECK(told && passed >= 0 && fcntl(passed, F_GETFD) == FD_CLOEXEC && write(passed, "x", 1) == 1 && close(passed) == 0);
  CHECK(close(file) == 0 && fcntl(s[1], F_SETFL, O_NONBLOCK) == 0);
  CHECK_ERRNO(recvmmsg(s[1], got, MANY, 0, NULL), EAGAIN);
  CHECK(send(s[0], "end", 3, 0) == 3);
  prepare(false);
  CHECK(recvmmsg(s[1], got, MANY, 0, NULL) == 1);
  CHECK(close(s[0]) == 0 && close(s[1]) == 0);
}

// Somebody else sends, later: two, of which it waits for both, and one.
static void waits(void) {
  int s[2];
  char c;
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 3; i++) {
      struct timespec t = {0, 20000000};
      nanosleep(&t, NULL);
      CHECK(send(s[0], "word", 4, 0) == 4);
    }
    CHECK(recv(s[0], &c, 1, 0) == 1);
    _exit(0);
  }
  prepare(false);
  CHECK(recvmmsg(s[1], got, 2, 0, NULL) == 2);
  check_one(0, "word", 4), check_one(1, "word", 4);
  prepare(false);
  CHECK(recvmmsg(s[1], got, MANY, MSG_WAITFORONE, NULL) == 1);
  check_one(0, "word", 4);
  CHECK(send(s[1], "", 1, 0) == 1);
  check_exited(child, 0);
  CHECK(close(s[0]) == 0 && close(s[1]) == 0);
}

static void check(int round) {
  datagrams();
  descriptors_and_streams();
  if (round % ROUNDS == ROUNDS - 1) waits();
  printf("round %d: %ld\n", round, (long)now_ns());
}

int main(void) {
  end = edge();
  rounds(check);
  return guest_ok();
}
