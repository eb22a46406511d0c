// A signal that the process ignores does not cut a call that waits until all its bytes are moved: here SIGCHLD, whose
// default is that, from a child that ends meanwhile.
#include <sys/sendfile.h>
#include <sys/socket.h>

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
static void reads_late(int fd, int other) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return;
  close(other);
  long taken = 0;
  while (taken < LEN) {
    if (taken == 0 || (taken >= LEN / 2 && taken < LEN / 2 + 4096)) usleep(taken ? 120000 : 20000);
    ssize_t n = read(fd, all, 4096);
    CHECK(n > 0);
    taken += n;
  }
  _exit(0);
}

static void reap(void) {
  int status;
  while (wait(&status) > 0) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(errno == ECHILD);
}

int main(void) {
  int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && ftruncate(file, LEN) == 0);
  for (int how = 0; how < 4; how++) {
    int ends[2];
    CHECK((how == 0 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
    ssize_t moved;
    if (how < 3) {
      reads_late(ends[0], ends[1]);
      ends_soon();
      if (how == 0) moved = write(ends[1], all, LEN);
      if (how == 1) moved = send(ends[1], all, LEN, 0);
      if (how == 2) moved = sendfile(ends[1], file, NULL, LEN);
    } else {
      pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        for (int i = 0; i < 2; i++) {
          CHECK(send(ends[1], all, LEN / 2, 0) == LEN / 2);
          usleep(150000);
        }
        _exit(0);
      }
      ends_soon();
      moved = recv(ends[0], all, LEN, MSG_WAITALL);
    }
    printf("%d: %zd\n", how, moved);
    CHECK(moved == LEN);
    close(ends[0]);
    close(ends[1]);
    reap();
  }
  return guest_ok();
}
