// process_vm_writev into a process that execs, exits or forks at that time: what is said to be written is there, and
// in no other image than it was written to.
// cflags: -static -no-pie
#include "../guest.h"
#include <sys/uio.h>

// The image has no address of its own choosing, so it is the same before and after an exec.
static volatile char place[32] = "fresh";
static volatile long counter;

static ssize_t put(pid_t pid, volatile void *at, const void *data, size_t len) {
  struct iovec from = {(void *)data, len}, to = {(void *)at, len};
  return process_vm_writev(pid, &from, 1, &to, 1, 0);
}

// Writes to the new image as soon as there is a sign of it: the old one's descriptors are closed.
static void into_exec(char *self) {
  int gone[2], go[2];
  char c, fd[16];
  CHECK(pipe2(gone, O_CLOEXEC) == 0 && pipe(go) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    strcpy((char *)place, "old");
    snprintf(fd, sizeof fd, "%d", go[0]);
    execl(self, self, fd, (char *)NULL);
    _exit(99);
  }
  CHECK(close(gone[1]) == 0 && read(gone[0], &c, 1) == 0);
  ssize_t written;
  do {
    written = put(pid, place, "after exec", 11);
    // The image is not all there yet.
    if (written == -1) CHECK(errno == EFAULT);
  } while (written == -1);
  CHECK(written == 11 && write(go[1], "x", 1) == 1);
  check_exited(pid, 7);
  CHECK(close(gone[0]) == 0 && close(go[0]) == 0 && close(go[1]) == 0);
}

static void into_exit(int after) {
  pid_t pid = fork();
  if (pid == 0) {
    for (volatile int i = 0; i < after; i++) getppid();
    _exit(3);
  }
  long n = 1;
  while (put(pid, &counter, &n, sizeof n) == sizeof n) n++;
  CHECK(errno == ESRCH || errno == EFAULT);
  check_exited(pid, 3);
  CHECK_ERRNO(put(pid, &counter, &n, sizeof n), ESRCH);
}

// Its children have what it had when it forked, and it is not given back what it has overwritten.
static void into_fork(void) {
  int done[2];
  CHECK(pipe(done) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 20; i++) {
      long before = counter;
      pid_t child = fork();
      if (child == 0) _exit(counter >= before ? 5 : 6);
      check_exited(child, 5);
      CHECK(counter >= before);
    }
    CHECK(write(done[1], "d", 1) == 1);
    while (counter != -1) getppid();
    _exit(4);
  }
  long n = 0;
  char c;
  CHECK(fcntl(done[0], F_SETFL, O_NONBLOCK) == 0);
  while (n++, read(done[0], &c, 1) == -1) CHECK(put(pid, &counter, &n, sizeof n) == sizeof n);
  n = -1;
  CHECK(put(pid, &counter, &n, sizeof n) == sizeof n);
  check_exited(pid, 4);
  CHECK(close(done[0]) == 0 && close(done[1]) == 0);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    char c;
    CHECK(read(atoi(argv[1]), &c, 1) == 1);
    printf("found %s\n", (char *)place);
    return strcmp((char *)place, "after exec") == 0 ? 7 : 8;
  }
  for (int i = 0; i < 20; i++) into_exec(argv[0]);
  for (int i = 0; i < 20; i++) into_exit(i * 20);
  into_fork();
  return guest_ok();
}
