// Descriptors are as they were: those opened since are closed, files closed since are open again, at their positions and with
// their flags. What was written to a file stays. The other end of a pipe does not see the checkpoint.
#include "checkpoints.h"

static off_t at(int fd) { return lseek(fd, 0, SEEK_CUR); }
static int is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

int main(void) {
  needs_bis();
  int text = open("text", O_CREAT | O_RDWR, 0600), lost = open("lost", O_CREAT | O_RDWR, 0600);
  CHECK(text >= 0 && lost >= 0);
  CHECK(write(text, "0123456789", 10) == 10 && write(lost, "abcdef", 6) == 6);
  CHECK(lseek(text, 3, SEEK_SET) == 3 && lseek(lost, 2, SEEK_SET) == 2);
  CHECK(unlink("lost") == 0);
  int folder = open(".", O_RDONLY | O_DIRECTORY), pipes[2];
  CHECK(folder >= 0 && pipe(pipes) == 0);
  CHECK(fcntl(pipes[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(text, F_SETFD, FD_CLOEXEC) == 0);

  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0);
  char bytes[32] = {0};
  CHECK(at(text) == 3 && fcntl(text, F_GETFD) == FD_CLOEXEC);
  CHECK(is_open(lost) && at(lost) == 2 && read(lost, bytes, 32) == 4 && memcmp(bytes, "cdef", 4) == 0);
  CHECK(is_open(folder) && fcntl(pipes[0], F_GETFL) & O_NONBLOCK);
  CHECK(is_open(pipes[1]) == (times < 4));
  if (times == 4) return guest_ok();
  static int opened;
  CHECK(opened == 0);
  opened = open("/dev/null", O_WRONLY);
  printf("%d: descriptor %d\n", times, opened);
  CHECK(read(text, bytes, 1) == 1 && bytes[0] == (times ? 'x' : '3'));

  CHECK(pwrite(text, "x", 1, 3) == 1);
  CHECK(lseek(text, 9, SEEK_SET) == 9 && fcntl(text, F_SETFD, 0) == 0 && fcntl(text, F_SETFL, O_APPEND) == 0);
  CHECK(close(lost) == 0 && close(folder) == 0);
  // Other files with their numbers.
  CHECK(dup2(opened, lost) == lost);
  CHECK(fcntl(pipes[0], F_SETFL, 0) == 0);
  if (times < 3) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  // The reader sees the end, though the checkpoint is from when the pipe could be written to.
  CHECK(close(pipes[1]) == 0 && read(pipes[0], bytes, 1) == 0);
  // What the checkpoint cannot bring back stays closed.
  CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
}
