// Threads write more into pipes and sockets than these take at once: a write that waits for its reader writes all that it was
// asked to, because nobody has sent a signal. Nor is less copied between files.
#include "../guest.h"
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LEN = 300000, WAYS = 6 };
static char data[LEN];
static volatile long spins;
static volatile int stop;

// Others who want to run. A round takes a while: a replay that looks for a place in a loop of five instructions takes ten times as
// long as the loop.
static void *spin(void *arg) {
  while (!stop) {
    long round = ++spins;
    __asm__ volatile(".rept 300\n imul $3, %0, %0\n .endr" : "+r"(round));
  }
  return arg;
}

static void *read_slowly(void *arg) {
  int fd = (int)(intptr_t)arg;
  static char got[LEN];
  long all = 0;
  for (ssize_t n; (n = read(fd, got, 100000)) > 0; all += n) {
    for (ssize_t i = 0; i < n; i++) CHECK(got[i] == (char)((all + i) * 7 / 3));
    usleep(2000);
  }
  return (void *)all;
}

static ssize_t put(int way, int fd, int file) {
  struct iovec parts[3] = {{data, 5}, {data + 5, LEN - 10}, {data + LEN - 5, 5}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
  struct mmsghdr messages = {.msg_hdr = message};
  switch (way) {
  case 0:
    return write(fd, data, LEN);
  case 1:
    return writev(fd, parts, 3);
  case 2:
    // As much as there is room for; nobody else reads there.
    for (off_t at = 0; at < LEN;) CHECK(sendfile(fd, file, &at, (size_t)(LEN - at)) > 0);
    return LEN;
  case 3:
    return send(fd, data, LEN, 0);
  case 4:
    return sendmsg(fd, &message, 0);
  }
  CHECK(sendmmsg(fd, &messages, 1, 0) == 1);
  return messages.msg_len;
}

static void copy(int from) {
  enum { MUCH = 48 << 20 };
  int to = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(to >= 0 && ftruncate(from, MUCH) == 0);
  for (int i = 0; i < 3; i++) {
    CHECK(lseek(to, 0, SEEK_SET) == 0 && write(to, "", 1) == 1 && lseek(to, 0, SEEK_SET) == 0);
    CHECK(sendfile(to, from, &(off_t){0}, MUCH) == MUCH);
    CHECK(copy_file_range(from, &(off_t){0}, to, &(off_t){0}, MUCH, 0) == MUCH);
  }
  CHECK(close(to) == 0 && unlink("copy") == 0);
}

int main(void) {
  for (long i = 0; i < LEN; i++) data[i] = (char)(i * 7 / 3);
  int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && write(file, data, LEN) == LEN);
  pthread_t spinner = start_thread(spin, NULL);
  CHECK(pwrite(file, data, LEN, 0) == LEN);
  for (int way = 0; way < 2 * WAYS; way++) {
    bool is_pipe = way < WAYS;
    if (is_pipe && way % WAYS > 2) continue;
    int fd[2];
    CHECK(is_pipe ? pipe(fd) == 0 : socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    pthread_t reader = start_thread(read_slowly, (void *)(intptr_t)fd[0]);
    ssize_t n = put(way % WAYS, fd[1], file);
    printf("way %d: %zd written\n", way, n);
    CHECK(n == LEN && close(fd[1]) == 0);
    void *all;
    CHECK(pthread_join(reader, &all) == 0 && (long)all == LEN && close(fd[0]) == 0);
  }
  copy(file);
  stop = 1;
  join_thread(spinner);
  return guest_ok();
}
