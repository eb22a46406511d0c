// flock and fcntl locks between processes: conflicts are seen, a waiting lock is granted, exit frees.
#include "../guest.h"
#include <sys/file.h>

static struct flock range(short type, off_t start, off_t len) {
  return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600), go[2], back[2];
  CHECK(fd >= 0 && pipe(go) == 0 && pipe(back) == 0);
  struct flock w = range(F_WRLCK, 0, 10), q;
  CHECK(fcntl(fd, F_SETLK, &w) == 0);
  pid_t child = fork();
  if (child == 0) {
    char c;
    int mine = open("f", O_RDWR);
    struct flock l = range(F_WRLCK, 5, 10);
    errno = 0;
    CHECK(fcntl(mine, F_SETLK, &l) == -1 && (errno == EAGAIN || errno == EACCES));
    q = range(F_WRLCK, 0, 0);
    CHECK(fcntl(mine, F_GETLK, &q) == 0 && q.l_type == F_WRLCK && q.l_pid == getppid() && q.l_len == 10);
    CHECK(flock(fd, LOCK_EX) == 0);
    CHECK_ERRNO(flock(mine, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    CHECK(flock(fd, LOCK_UN) == 0);
    CHECK(write(back[1], "1", 1) == 1);
    l = range(F_WRLCK, 5, 10);
    CHECK(fcntl(mine, F_SETLKW, &l) == 0);  // waits for the parent
    CHECK(write(back[1], "2", 1) == 1);
    CHECK(read(go[0], &c, 1) == 1);
    _exit(0);  // frees the lock
  }
  char c;
  CHECK(read(back[0], &c, 1) == 1 && c == '1');
  w = range(F_UNLCK, 0, 10);
  CHECK(fcntl(fd, F_SETLK, &w) == 0);
  CHECK(read(back[0], &c, 1) == 1 && c == '2');
  q = range(F_RDLCK, 7, 1);
  CHECK(fcntl(fd, F_GETLK, &q) == 0 && q.l_type == F_WRLCK && q.l_pid == child && q.l_start == 5);
  CHECK(write(go[1], "x", 1) == 1);
  check_exited(child, 0);
  q = range(F_RDLCK, 7, 1);
  CHECK(fcntl(fd, F_GETLK, &q) == 0 && q.l_type == F_UNLCK);
  // Open file description locks.
  struct flock o = range(F_WRLCK, 0, 1);
  int other = open("f", O_RDWR);
  CHECK(fcntl(fd, F_OFD_SETLK, &o) == 0);
  CHECK_ERRNO(fcntl(other, F_OFD_SETLK, &o), EAGAIN);
  printf("child %d held the lock\n", child);
  return guest_ok();
}
