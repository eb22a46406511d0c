// A server reads a message of 6,000 bytes by one read() from a stream socket. Who writes does so in one piece, and it always
// comes in one.
#include "rare.h"

#define LEN 6000
#define MESSAGES 3

struct message {
  uint32_t number;
  unsigned char body[LEN - 8];
  uint32_t check;
};

static void *client(void *arg) {
  int fd = *(int *)arg;
  for (uint32_t i = 0; i < MESSAGES; i++) {
    struct message message = {.number = i, .check = ~i};
    MUST(write(fd, &message, sizeof message) == sizeof message);
  }
  shutdown(fd, SHUT_WR);
  return NULL;
}

int main(void) {
  int ends[2];
  MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pthread_t thread = begin(client, &ends[1]);
  for (uint32_t i = 0; i < MESSAGES; i++) {
    struct message message = {0};
    ssize_t got = read(ends[0], &message, sizeof message);
    MUST(got > 0);
    if (message.number != i || message.check != ~i) WRONG("message %u is broken (%zd bytes)", i, got);
  }
  end(thread);
  return right("all messages were whole");
}
