// SIGCONT, for which a process has a handler, and a stop right after it: whatever takes the one does not take the other back. The
// process waits in a call that the stop interrupts, with another thread or without.
#include "../guest.h"
#include <stdatomic.h>
#include <sys/epoll.h>

enum { STOPS = 100 };

static atomic_int continued;

static void goes_on(int sig) {
  (void)sig;
  continued++;
}

static void *waits_beside(void *arg) {
  int epoll = epoll_create1(0);
  for (;;) CHECK_ERRNO(epoll_wait(epoll, &(struct epoll_event){0}, 1, -1), EINTR);
  return arg;
}

// Answers whoever asks.
static void answers(int asked, int answer, bool has_thread) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  char byte;
  CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, asked, &event) == 0);
  on_signal(SIGCONT, goes_on, 0);
  if (has_thread) start_thread(waits_beside, NULL);
  for (;;) {
    CHECK(write(answer, "a", 1) == 1);
    int found;
    do {
      found = epoll_wait(epoll, &event, 1, -1);
      CHECK(found == 1 || errno == EINTR);
    } while (found != 1);
    ssize_t got = read(asked, &byte, 1);
    if (got == 0) {
      CHECK(continued > 0);
      exit(0);
    }
  }
}

static void stops(bool has_thread) {
  int ask[2], answer[2], status;
  char byte;
  CHECK(pipe(ask) == 0 && pipe(answer) == 0);
  pid_t child = fork();
  if (child == 0) {
    close(ask[1]);
    answers(ask[0], answer[1], has_thread);
  }
  close(ask[0]);
  for (int i = 0; i < STOPS; i++) {
    CHECK(read(answer[0], &byte, 1) == 1);
    if (i % 2) usleep(300);
    CHECK(kill(child, SIGCONT) == 0);
    for (volatile int spin = i % 50 * i * 2; spin > 0; spin--);
    CHECK(kill(child, SIGSTOP) == 0);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CHECK(kill(child, SIGCONT) == 0 && write(ask[1], "e", 1) == 1);
  }
  CHECK(read(answer[0], &byte, 1) == 1);
  close(ask[1]);
  check_exited(child, 0);
}

int main(void) {
  stops(false);
  puts("alone");
  stops(true);
  return guest_ok();
}
