// A signal that is sent to a process with a first thread that sleeps is that thread's, also where one follows
// that the process ignores (timeout sends SIGTERM and SIGCONT), and the other thread's wait goes on, although
// the kernel never makes it again.
#include <stdatomic.h>
#include <sys/epoll.h>

#include "../guest.h"

#define ROUNDS 100

static atomic_int first, others, waits;

static void handler(int sig) {
  (void)sig;
  if (tid_self() == getpid())
    first++;
  else
    others++;
}

static void *wait_for_nothing(void *arg) {
  int epoll = epoll_create1(0);
  struct epoll_event event;
  CHECK(epoll >= 0);
  for (;;) {
    CHECK_ERRNO(epoll_wait(epoll, &event, 1, -1), EINTR);
    waits++;
  }
  return arg;
}

int main(void) {
  int ready[2], sleeps = 0;
  CHECK(pipe(ready) == 0);
  on_signal(SIGTERM, handler, 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char byte;
    close(ready[1]);
    while (read(ready[0], &byte, 1) == 1) {
      usleep(1000);  // it sleeps by then
      CHECK(kill(getppid(), SIGTERM) == 0);
      CHECK(kill(getppid(), SIGCONT) == 0);
    }
    _exit(0);
  }
  close(ready[0]);
  start_thread(wait_for_nothing, NULL);
  for (int i = 0; i < ROUNDS; i++) {
    int before = first + others;
    CHECK(write(ready[1], "", 1) == 1);
    sleeps += nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL) == -1 && errno == EINTR;
    while (first + others == before) usleep(100);
  }
  close(ready[1]);
  CHECK(waitpid(child, NULL, 0) == child);
  printf("%d for the first thread, %d for others, %d sleeps and %d waits interrupted\n", first, others, sleeps, waits);
  CHECK(first == ROUNDS && others == 0 && waits == 0);
  printf("guest ok\n");
  return 0;
}
