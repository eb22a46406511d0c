// What is written at once to a pipe or a socket that is read slowly is taken whole, however long that takes: no signal
// comes, so nothing may cut it. The same of what is to be received whole, and of a file that is sent.
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../guest.h"

#define LEN (512 * 1024)

static char all[LEN];

// Lets the other side wait for longer than anybody would leave a task alone.
static pid_t reader(int fd, int other) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  close(other);
  static char part[32 * 1024];
  for (int i = 0;; i++) {
    if (i % 4 == 0) usleep(60000);
    ssize_t n = read(fd, part, sizeof part);
    CHECK(n >= 0);
    if (n == 0) _exit(0);
  }
}

static ssize_t writes(int how, int fd) {
  struct iovec parts[2] = {{all, LEN / 2}, {all + LEN / 2, LEN / 2}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  switch (how) {
  case 0: return write(fd, all, LEN);
  case 1: return writev(fd, parts, 2);
  case 2: return send(fd, all, LEN, 0);
  case 3: return sendmsg(fd, &message, 0);
  }
  int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && write(file, all, LEN) == LEN && lseek(file, 0, SEEK_SET) == 0);
  ssize_t sent = sendfile(fd, file, NULL, LEN);
  close(file);
  return sent;
}

int main(void) {
  for (int how = 0; how < 5; how++) {
    for (int is_socket = 0; is_socket < 2; is_socket++) {
      // sendfile fills a pipe, and returns.
      if (!is_socket && how >= 2) continue;
      int ends[2];
      CHECK((is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
      pid_t child = reader(ends[0], ends[1]);
      close(ends[0]);
      ssize_t written = writes(how, ends[1]);
      printf("%d %d: %zd\n", how, is_socket, written);
      CHECK(written == LEN);
      close(ends[1]);
      check_exited(child, 0);
    }
  }
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 8; i++) {
      usleep(60000);
      CHECK(write(ends[1], all, 4096) == 4096);
    }
    _exit(0);
  }
  CHECK(recv(ends[0], all, 8 * 4096, MSG_WAITALL) == 8 * 4096);
  check_exited(child, 0);
  return guest_ok();
}
