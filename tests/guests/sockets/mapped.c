// A connected TCP socket can be mapped, to receive into the mapping, or the kernel does not know how; whoever asks goes
// on with what the socket has for ordinary reads.
#include "../guest.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void) {
  int s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof a;
  CHECK(s >= 0 && c >= 0 && bind(s, (void *)&a, sizeof a) == 0 && listen(s, 1) == 0);
  CHECK(getsockname(s, (void *)&a, &len) == 0 && connect(c, (void *)&a, sizeof a) == 0);
  int d = accept(s, NULL, NULL);
  CHECK(d >= 0 && write(d, "received", 8) == 8);
  void *m = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, c, 0);
  if (m == MAP_FAILED)
    CHECK(errno == ENODEV);
  else
    CHECK(munmap(m, 4 * PAGE) == 0);
  int u[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, u) == 0);
  errno = 0;
  CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, u[0], 0) == MAP_FAILED && errno == ENODEV);
  char text[9] = "";
  for (ssize_t done = 0, some; done < 8; done += some) CHECK((some = read(c, text + done, 8 - done)) > 0);
  CHECK(strcmp(text, "received") == 0);
  return guest_ok();
}
