// Opening a FIFO blocks until the other side is there; nonblocking opens tell the difference.
#include "../guest.h"

int main(void) {
  CHECK(mkfifo("p", 0600) == 0);
  CHECK_ERRNO(open("p", O_WRONLY | O_NONBLOCK), ENXIO);
  pid_t child = fork();
  if (child == 0) {
    int w = open("p", O_WRONLY);  // blocks until the parent opens
    CHECK(w >= 0);
    CHECK(dprintf(w, "from %d", getpid()) > 0);
    _exit(0);
  }
  sleep_ms(20);
  int r = open("p", O_RDONLY);
  CHECK(r >= 0);
  char text[64] = "", want[64];
  ssize_t n, len = 0;
  while ((n = read(r, text + len, sizeof text - 1 - len)) > 0) len += n;
  CHECK(n == 0);
  snprintf(want, sizeof want, "from %d", child);
  CHECK(strcmp(text, want) == 0);
  check_exited(child, 0);
  close(r);
  r = open("p", O_RDONLY | O_NONBLOCK);
  CHECK(r >= 0 && read(r, text, 1) == 0);
  int w = open("p", O_WRONLY | O_NONBLOCK);
  CHECK(w >= 0);
  CHECK_ERRNO(read(r, text, 1), EAGAIN);
  printf("%s\n", text);
  return guest_ok();
}
