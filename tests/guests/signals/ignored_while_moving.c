// A signal that the process ignores does not cut a call that waits until all its bytes are moved: here SIGCHLD, whose
// default is that, from a child that ends meanwhile.
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../guest.h"

#define LEN (1024 * 1024)

static char all[LEN];

static void ends_soon(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return;
  usleep(60000);
  _exit(0);
}

// Takes half of the bytes when the other child has ended, and the rest later.
static void reads_late(int fd, int other, int zeros) {
  static char some[4096];
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return;
  close(other);
  long taken = 0;
  while (taken < LEN) {
    if (taken == 0 || (taken >= LEN / 2 && taken < LEN / 2 + 4096)) usleep(taken ? 120000 : 20000);
    ssize_t n = read(fd, some, sizeof some);
    CHECK(n > 0);
    if (zeros) memset(all + taken, 0, n);
    CHECK(memcmp(all + taken, some, n) == 0);
    taken += n;
  }
  _exit(0);
}

static void reap(void) {
  int status;
  while (wait(&status) > 0) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(errno == ECHILD);
}

static void *waits(void *unused) {
  for (;;) usleep(30000);
  return unused;
}

enum how { WRITE, SEND, SENDFILE, WRITEV, SENDMSG, RECV, RECVMSG, HOWS };

int main(void) {
  int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && ftruncate(file, LEN) == 0);
  for (int round = 0; round < 2 * HOWS; round++) {
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    enum how how = round % HOWS;
    // With another thread, what the kernel writes to while a call waits is not the program's own memory.
    pthread_t other;
    if (round == HOWS) CHECK(pthread_create(&other, NULL, waits, NULL) == 0);
    // Pieces of many lengths: one is empty, and where half of all has been moved is within one.
    struct iovec pieces[] = {{all, 1000}, {all + 1000, 0}, {all + 1000, LEN / 2}, {all + 1000 + LEN / 2, 99000}, {all + 100000 + LEN / 2, LEN / 2 - 100000}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 5};
    int ends[2];
    CHECK((how == WRITE || how == WRITEV ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
    ssize_t moved = 0;
    if (how < RECV) {
      for (int i = 0; i < LEN; i++) all[i] = i * 7 + how + i / 1000;
      reads_late(ends[0], ends[1], how == SENDFILE);
      ends_soon();
      if (how == WRITE) moved = write(ends[1], all, LEN);
      if (how == SEND) moved = send(ends[1], all, LEN, 0);
      if (how == SENDFILE) moved = sendfile(ends[1], file, NULL, LEN);
      if (how == WRITEV) moved = writev(ends[1], pieces, 5);
      if (how == SENDMSG) moved = sendmsg(ends[1], &message, MSG_NOSIGNAL);
    } else {
      pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        for (int i = 0; i < LEN; i++) all[i] = i * 7 + how + i / 1000;
        for (int i = 0; i < 2; i++) {
          CHECK(send(ends[1], all + i * (LEN / 2), LEN / 2, 0) == LEN / 2);
          usleep(150000);
        }
        _exit(0);
      }
      memset(all, 0, LEN);
      ends_soon();
      if (how == RECV) moved = recv(ends[0], all, LEN, MSG_WAITALL);
      if (how == RECVMSG) moved = recvmsg(ends[0], &message, MSG_WAITALL);
      for (int i = 0; i < LEN; i++) CHECK(all[i] == (char)(i * 7 + how + i / 1000));
    }
    printf("%d: %zd\n", how, moved);
    CHECK(moved == LEN && pieces[2].iov_len == LEN / 2);
    close(ends[0]);
    close(ends[1]);
    reap();
  }
  return guest_ok();
}
