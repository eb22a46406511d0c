// A read of more than there is memory for gives what is whole, the pages of a pipe and the packets of a socket, and leaves in memory
// what it has begun of the next one, of which its result says nothing.
#include "../guest.h"
#include <sys/socket.h>

static void tell(const char *what, int from, int to, size_t some, int room) {
  char *m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), text[PAGE];
  CHECK(m != MAP_FAILED && munmap(m + 3 * PAGE, PAGE) == 0);
  memset(m, 'x', 3 * PAGE);
  for (int round = 0; round < 3; round++) {
    memset(text, 'a' + round, sizeof text);
    CHECK(write(to, text, some) == (ssize_t)some);
  }
  // So much that no hook makes the call: a hook has the kernel read into its log, where there is memory.
  ssize_t result = read(from, m + 3 * PAGE - room, 1 << 20);
  int changed = 0;
  for (int i = 0; i < 3 * PAGE; i++) changed += m[i] != 'x';
  unsigned sum = 0;
  for (int i = 0; i < 3 * PAGE; i++) sum = sum * 31 + (unsigned char)m[i];
  printf("%s of %zu with room for %d: %zd, %d bytes changed, sum %x\n", what, some, room, result, changed, sum);
  CHECK(result > 0 && changed >= result);
  while (read(from, text, sizeof text) > 0);
  CHECK(munmap(m, 3 * PAGE) == 0);
}

int main(void) {
  int pipes[2], sockets[2];
  CHECK(pipe2(pipes, O_NONBLOCK) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0);
  for (size_t some = 1000; some <= 4000; some += 1500)
    for (int room = 4077; room <= 11000; room += 977) {
      tell("a pipe", pipes[0], pipes[1], some, room);
      tell("a socket", sockets[0], sockets[1], some, room);
    }
  return guest_ok();
}
