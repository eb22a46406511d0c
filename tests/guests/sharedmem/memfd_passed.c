// A memfd passed over a socket to a process that maps it; both write; the mapping at different addresses.
#include "../guest.h"
#include <sys/socket.h>

static void move_fd(int sock, int *fd, bool sending) {
  union {
    char buf[CMSG_SPACE(4)];
    struct cmsghdr align;
  } c;
  char byte = 'm';
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c.buf, .msg_controllen = sizeof c.buf};
  if (sending) {
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN(4);
    memcpy(CMSG_DATA(h), fd, 4);
    CHECK(sendmsg(sock, &m, 0) == 1);
  } else {
    CHECK(recvmsg(sock, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
    memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), 4);
  }
}

int main(void) {
  int s[2], fd;
  char c;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
  pid_t p = fork();
  if (p == 0) {
    move_fd(s[1], &fd, false);
    mmap(NULL, 7 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(strcmp(m, "written before") == 0);
    strcpy(m + 2 * PAGE, "answer by store");
    CHECK(pwrite(fd, "answer by call", 14, 3 * PAGE) == 14);
    CHECK(write(s[1], "d", 1) == 1 && read(s[1], &c, 1) == 1);
    CHECK(strcmp(m + PAGE, "and back") == 0);
    _exit(0);
  }
  fd = memfd_create("shared", 0);
  CHECK(ftruncate(fd, 4 * PAGE) == 0);
  char *m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  strcpy(m, "written before");
  move_fd(s[0], &fd, true);
  CHECK(read(s[0], &c, 1) == 1);
  CHECK(strcmp(m + 2 * PAGE, "answer by store") == 0 && strcmp(m + 3 * PAGE, "answer by call") == 0);
  strcpy(m + PAGE, "and back");
  CHECK(write(s[0], "g", 1) == 1);
  check_exited(p, 0);
  printf("mapped at %p\n", m);
  return guest_ok();
}
