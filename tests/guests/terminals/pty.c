// cflags: -lutil
// A pseudo-terminal: echo, canonical lines, erase, raw mode, window size, name, hangup.
#include "../guest.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(void) {
  int m, s;
  char name[128], buf[64];
  struct winsize ws = {25, 81, 0, 0}, got;
  struct termios t;
  CHECK(openpty(&m, &s, name, NULL, &ws) == 0 && isatty(s) && !isatty(0 + open("/dev/null", O_RDONLY)));
  CHECK(ioctl(s, TIOCGWINSZ, &got) == 0 && got.ws_row == 25 && got.ws_col == 81);
  CHECK(write(m, "hellp\177o\n", 8) == 8);
  CHECK(read(s, buf, 64) == 6 && memcmp(buf, "hello\n", 6) == 0);
  char echo[65] = "";
  for (ssize_t n = 0; !strchr(echo, '\n'); n += read(m, echo + n, (size_t)(64 - n))) CHECK(n >= 0 && n < 64);
  CHECK(memcmp(echo, "hellp", 5) == 0);
  CHECK(tcgetattr(s, &t) == 0 && (t.c_lflag & ICANON) && (t.c_lflag & ECHO));
  cfmakeraw(&t);
  CHECK(tcsetattr(s, TCSANOW, &t) == 0);
  CHECK(write(m, "r", 1) == 1 && read(s, buf, 64) == 1 && buf[0] == 'r');
  CHECK(write(s, "out\n", 4) == 4 && read(m, buf, 64) == 4 && buf[3] == '\n');
  int avail;
  CHECK(write(m, "12", 2) == 2);
  do CHECK(usleep(100) == 0 && ioctl(s, FIONREAD, &avail) == 0 && avail <= 2);
  while (avail < 2);  // the kernel passes it on by a worker of its own
  CHECK(tcflush(s, TCIFLUSH) == 0 && ioctl(s, FIONREAD, &avail) == 0 && avail == 0);
  CHECK(strcmp(ttyname(s), name) == 0 && strcmp(ptsname(m), name) == 0);
  ws.ws_row = 50;
  CHECK(ioctl(m, TIOCSWINSZ, &ws) == 0 && ioctl(s, TIOCGWINSZ, &got) == 0 && got.ws_row == 50);
  CHECK(close(s) == 0);
  CHECK_ERRNO(read(m, buf, 1), EIO);
  printf("%s\n", name);
  return guest_ok();
}
