// Calls that may wait for others, whose results the program may not write (a collector has protected the page): they fail with EFAULT,
// what they would have read is there still, and the page is as it was.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../guest.h"

static int go[2];

static void *idle(void *arg) {
  char c;
  while (read(go[0], &c, 1) == 1) *(volatile long *)arg += 1;
  return NULL;
}

// Writes to the pipe when the other thread waits for it.
static void *write_late(void *arg) {
  usleep(20000);
  CHECK(write(*(int *)arg, "late", 4) == 4);
  return NULL;
}

static void *protect_late(void *page) {
  usleep(20000);
  CHECK(mprotect(page, PAGE, PROT_READ) == 0);
  CHECK(write(go[1], "x", 1) == 1);
  return NULL;
}

static void check_page(int kind) {
  char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  char *end = page + PAGE, text[64] = "";
  int pipes[2], stream[2], packets[2], waits[2], polls;
  CHECK(pipe(pipes) == 0 && pipe(waits) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, packets) == 0);
  CHECK((polls = epoll_create1(0)) >= 0);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(epoll_ctl(polls, EPOLL_CTL_ADD, pipes[0], &event) == 0);
  CHECK(write(pipes[1], "abcdef", 6) == 6 && write(stream[1], "stream", 6) == 6);

  struct pollfd *watched = (struct pollfd *)end;
  *watched = (struct pollfd){pipes[0], POLLIN, 0};
  fd_set *set = (fd_set *)(end + 256);
  FD_SET(pipes[0], set);
  struct timeval *limit = (struct timeval *)(end + 1024);
  limit->tv_usec = 1000;
  memcpy(end + 2048, "as it was", 9);
  unsigned before = 0, after = 0;
  for (int i = 0; i < PAGE; i++) before = before * 31 + (unsigned char)end[i];
  CHECK(mprotect(end, PAGE, PROT_READ) == 0);

  char *there = end + 2048;
  CHECK_ERRNO(read(pipes[0], there, 4), EFAULT);
  struct iovec vector = {there, 4};
  CHECK_ERRNO(readv(pipes[0], &vector, 1), EFAULT);
  CHECK_ERRNO(recv(stream[0], there, 4, 0), EFAULT);
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  CHECK_ERRNO(recvmsg(stream[0], &message, 0), EFAULT);
  CHECK_ERRNO(epoll_wait(polls, (struct epoll_event *)there, 1, 1000), EFAULT);
  CHECK_ERRNO(poll(watched, 1, 1000), EFAULT);
  struct timeval own = {1, 0};
  CHECK_ERRNO(select(pipes[0] + 1, set, NULL, NULL, &own), EFAULT);
  // What is left of the time has no place to go, of which nothing is said.
  CHECK(syscall(SYS_select, 0, NULL, NULL, NULL, limit) == 0);

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, write_late, &waits[1]) == 0);
  CHECK_ERRNO(read(waits[0], there, 4), EFAULT);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(read(waits[0], text, sizeof text) == 4 && memcmp(text, "late", 4) == 0);

  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(7);
  CHECK_ERRNO(waitpid(child, (int *)there, 0), EFAULT);

  for (int i = 0; i < PAGE; i++) after = after * 31 + (unsigned char)end[i];
  CHECK(after == before);
  CHECK(read(pipes[0], text, sizeof text) == 6 && memcmp(text, "abcdef", 6) == 0);
  CHECK(read(stream[0], text, sizeof text) == 6 && memcmp(text, "stream", 6) == 0);

  // Nor may they be read, without any access.
  CHECK(mprotect(end, PAGE, PROT_NONE) == 0);
  CHECK_ERRNO(write(stream[1], there, 4), EFAULT);
  CHECK_ERRNO(send(packets[1], there, 4, 0), EFAULT);
  CHECK_ERRNO(poll(watched, 1, 1000), EFAULT);
  CHECK(mprotect(end, PAGE, PROT_READ) == 0);

  // As far as it may be written.
  CHECK(write(stream[1], "0123456789", 10) == 10);
  struct iovec two[2] = {{text, 4}, {there, 4}};
  ssize_t some = readv(stream[0], two, 2);
  printf("kind %d: two vectors %zd (%s)\n", kind, some, some < 0 ? strerror(errno) : "some");
  CHECK(munmap(page, 2 * PAGE) == 0);
}

// It is protected while the call waits.
static void check_late(int kind) {
  char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  pthread_t protects, writes;
  CHECK(pthread_create(&protects, NULL, protect_late, page) == 0);
  CHECK(pthread_create(&writes, NULL, write_late, &pipes[1]) == 0);
  ssize_t result = read(pipes[0], page, 4);
  int error = errno;
  CHECK(pthread_join(protects, NULL) == 0 && pthread_join(writes, NULL) == 0);
  printf("kind %d: protected late: %zd, %.4s\n", kind, result, page);
  CHECK(result == 4 ? memcmp(page, "late", 4) == 0 : result == -1 && error == EFAULT && page[0] == 0);
}

int main(void) {
  static long woken;
  CHECK(pipe(go) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, idle, &woken) == 0);
  for (int round = 0; round < 3; round++) {
    check_page(MAP_PRIVATE);
    check_page(MAP_SHARED);
    check_late(MAP_PRIVATE);
    check_late(MAP_SHARED);
  }
  CHECK(close(go[1]) == 0 && pthread_join(thread, NULL) == 0);
  return guest_ok();
}
