// Copies of standard output, which must be shown again whatever its number; descriptors that are new, and closed; calls that
// fail; options, names and lengths with too little room.
#include "rounds.h"
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static void say(int fd, const char *how, int round) {
  char line[64];
  int n = snprintf(line, sizeof line, "%s, round %d\n", how, round);
  CHECK(write(fd, line, n) == n);
}

static void copies(int round) {
  int a = dup(1), b = dup2(1, 40), c = fcntl(1, F_DUPFD, 50), d = dup3(1, 41, O_CLOEXEC);
  CHECK(a > 2 && b == 40 && c >= 50 && d == 41);
  say(a, "dup", round), say(b, "dup2", round), say(c, "F_DUPFD", round), say(d, "dup3", round);
  // A number that was a pipe, and is standard output now; and the other way round.
  int p[2];
  char text[64];
  CHECK(pipe(p) == 0 && write(p[1], "x", 1) == 1);
  int number = p[1], keep = dup(p[1]);
  CHECK(dup2(a, number) == number);
  say(number, "instead of a pipe", round);
  CHECK(dup2(keep, a) == a && write(a, "yz", 2) == 2 && read(p[0], text, 64) == 3 && !memcmp(text, "xyz", 3));
  CHECK(dup2(a, a) == a && write(a, "q", 1) == 1 && read(p[0], text, 64) == 1);
  CHECK(close(a) == 0 && close(b) == 0 && close(c) == 0 && close(d) == 0);
  CHECK(close(p[0]) == 0 && close(number) == 0 && close(keep) == 0);
  CHECK_ERRNO(write(b, "x", 1), EBADF);
  CHECK_ERRNO(dup(-1), EBADF);
}

static void fresh(void) {
  char text[16];
  uint64_t count;
  int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), random = open("/dev/urandom", O_RDONLY);
  CHECK(null >= 0 && zero >= 0 && random >= 0);
  CHECK(write(null, "x", 1) == 1 && read(null, text, 1) == 0 && write(zero, "x", 1) == 1 && read(zero, text, 4) == 4);
  CHECK(text[0] == 0 && read(random, text, 16) == 16);
  CHECK(close(null) == 0 && close(zero) == 0 && close(random) == 0);
  int e = eventfd(3, EFD_NONBLOCK);
  CHECK(e >= 0 && read(e, &count, 8) == 8 && count == 3);
  CHECK_ERRNO(read(e, &count, 8), EAGAIN);
  CHECK_ERRNO(read(e, &count, 4), EINVAL);
  count = 5;
  CHECK(write(e, &count, 8) == 8 && read(e, &count, 8) == 8 && count == 5 && close(e) == 0);
  // Not links, and no such path.
  CHECK_ERRNO(readlink("file", text, 16), EINVAL);
  CHECK_ERRNO(readlink("nothing", text, 16), ENOENT);
  CHECK(readlink("link", text, 2) == 2 && !memcmp(text, "fi", 2));
  CHECK_ERRNO(readlink("link", text, 0), EINVAL);
}

static void sockets(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
  socklen_t len = sizeof at, small = 3;
  int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int on = 1, value = 0;
  CHECK(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && bind(s, (void *)&at, len) == 0);
  CHECK(listen(s, 4) == 0 && getsockname(s, (void *)&at, &len) == 0 && len == sizeof at);
  CHECK_ERRNO(accept4(s, NULL, NULL, 0), EAGAIN);
  CHECK_ERRNO(getpeername(c, (void *)&from, &len), ENOTCONN);
  CHECK_ERRNO(connect(c, (void *)&at, sizeof at), EINPROGRESS);
  int a;
  while ((a = accept4(s, (void *)&from, &len, SOCK_CLOEXEC)) == -1) CHECK(errno == EAGAIN);
  memset(&from, 0x11, sizeof from);
  CHECK(getpeername(a, (void *)&from, &small) == 0 && small == sizeof from && ((char *)&from)[3] == 0x11);
  len = 1;
  CHECK(setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  CHECK(getsockopt(a, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && len == 1 && value == 1);
  len = sizeof value;
  CHECK(getsockopt(c, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && len == 4 && value == 0);
  CHECK_ERRNO(getsockopt(c, SOL_SOCKET, 9999, &value, &len), ENOPROTOOPT);
  CHECK_ERRNO(setsockopt(c, SOL_SOCKET, SO_RCVBUF, (void *)8, 4), EFAULT);
  CHECK_ERRNO(setsockopt(c, SOL_SOCKET, SO_RCVBUF, &value, 1), EINVAL);
  // The length of a filter is told in instructions of eight bytes.
  struct sock_filter code[2] = {{BPF_LD | BPF_IMM, 0, 0, 9}, {BPF_RET | BPF_K, 0, 0, 0xffff}}, back[8] = {0};
  struct sock_fprog program = {2, code};
  CHECK(setsockopt(a, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
  len = 8;
  CHECK(getsockopt(a, SOL_SOCKET, SO_GET_FILTER, back, &len) == 0 && len == 2 && back[1].k == 0xffff);
  CHECK(setsockopt(a, SOL_SOCKET, SO_DETACH_FILTER, &on, sizeof on) == 0);
  int file = open("file", O_RDONLY);
  off_t offset = 1;
  CHECK(sendfile(a, file, &offset, 3) == 3 && offset == 4 && sendfile(a, file, NULL, 2) == 2);
  char text[8];
  int left = 0;
  while (left < 5) CHECK(ioctl(c, FIONREAD, &left) == 0);
  CHECK(left == 5);
  // With chaos, one at a time perhaps.
  for (ssize_t got = 0, more; got < 5; got += more) CHECK((more = recv(c, text + got, 5 - (size_t)got, 0)) > 0);
  CHECK(!memcmp(text, "23412", 5));
  CHECK_ERRNO(sendfile(a, -1, &offset, 3), EBADF);
  CHECK(close(a) == 0 && close(s) == 0 && close(c) == 0 && close(file) == 0);
}

static void lengths(int round) {
  struct stat st;
  char name[17] = {0}, want[32];
  int f = open("grows", O_RDWR | O_CREAT, 0600);
  CHECK(f >= 0 && ftruncate(f, 100 + round) == 0 && fstat(f, &st) == 0 && st.st_size == 100 + round);
  CHECK(fallocate(f, 0, 0, 5000) == 0 && fstat(f, &st) == 0 && st.st_size == 5000 && ftruncate(f, 0) == 0);
  CHECK_ERRNO(ftruncate(f, -1), EINVAL);
  char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
  CHECK(map != MAP_FAILED && ftruncate(f, 10) == 0 && pwrite(f, "seen", 4, 0) == 4 && !memcmp(map, "seen", 5));
  CHECK(ftruncate(f, 2) == 0 && !memcmp(map, "se\0", 4) && munmap(map, PAGE) == 0 && close(f) == 0);
  snprintf(want, sizeof want, "round %d", round % 100);
  CHECK(prctl(PR_SET_NAME, want) == 0 && prctl(PR_GET_NAME, name) == 0 && !strcmp(name, want));
  CHECK(prctl(PR_CAPBSET_READ, 0) >= 0);
  CHECK_ERRNO(prctl(PR_CAPBSET_READ, 1000), EINVAL);
  CHECK_ERRNO(prctl(PR_GET_NAME, 8), EFAULT);
}

static void check(int round) {
  copies(round);
  fresh();
  sockets();
  lengths(round);
}

int main(void) {
  make_file("file", "12345678", 8);
  CHECK(symlink("file", "link") == 0);
  rounds(check);
  return guest_ok();
}
