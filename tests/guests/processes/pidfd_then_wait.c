// A child has ended for everybody at once. A parent that learns of it by a pidfd (poll, epoll, select) or by /proc finds it by a wait
// that does not wait; and the SIGCHLD of it is there then. The child exits, alone or with threads, or is killed.
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static void *sleeper(void *arg) {
  (void)arg;
  for (;;) pause();
  return NULL;
}

static void *ender(void *arg) {
  (void)arg;
  usleep(200);
  _exit(7);
}

// How a child ends; all that exit do so with 7.
enum end { AT_ONCE, WITH_THREADS, AFTER_ITS_FIRST, KILLED_ASLEEP, KILLED_AT_WORK, ENDS };

static void child(enum end end) {
  switch (end) {
  case AT_ONCE:
    _exit(7);
  case WITH_THREADS:
    for (int i = 0; i < 2; i++) start_thread(sleeper, NULL);
    _exit(7);
  case AFTER_ITS_FIRST:
    start_thread(ender, NULL);
    syscall(SYS_exit, 0);
    _exit(99);
  case KILLED_ASLEEP:
    for (;;) pause();
  default:
    for (;;) getppid();
  }
}

static int epoll;

static void await(int fd, int way) {
  struct pollfd polled = {fd, POLLIN, 0};
  struct epoll_event event = {EPOLLIN, {.fd = fd}};
  fd_set set;
  switch (way) {
  case 0:
    CHECK(poll(&polled, 1, 20000) == 1);
    return;
  case 1:
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 20000) == 1 && event.data.fd == fd);
    return;
  default:
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(select(fd + 1, &set, NULL, NULL, &(struct timeval){20, 0}) == 1);
  }
}

// Without waiting: by its number, by the descriptor, or anybody.
static void find(pid_t p, int fd, int way, bool killed) {
  int status = 0;
  siginfo_t info = {0};
  if (way == 0) {
    CHECK(waitpid(p, &status, WNOHANG) == p);
  } else if (way == 1) {
    CHECK(waitpid(-1, &status, WNOHANG) == p);
  } else {
    CHECK(waitid(way == 2 ? P_PIDFD : P_ALL, way == 2 ? fd : 0, &info, WEXITED | WNOHANG) == 0);
    CHECK(info.si_pid == p && info.si_code == (killed ? CLD_KILLED : CLD_EXITED));
    CHECK(info.si_status == (killed ? SIGKILL : 7));
    return;
  }
  CHECK(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

// The state of a process in /proc; X where it is gone.
static char state_of(pid_t p) {
  char path[40], text[200];
  snprintf(path, sizeof path, "/proc/%d/stat", p);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 'X';
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 'X';
  text[n] = 0;
  return strrchr(text, ')')[2];
}

int main(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  CHECK((epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0);
  for (int i = 0; i < 60; i++) {
    enum end end = i % ENDS;
    pid_t p = fork();
    CHECK(p >= 0);
    if (p == 0) child(end);
    bool killed = end == KILLED_ASLEEP || end == KILLED_AT_WORK;
    int fd = (int)syscall(SYS_pidfd_open, p, 0);
    CHECK(fd >= 0);
    if (killed) {
      usleep(i * 20);
      CHECK(kill(p, SIGKILL) == 0);
    }
    if (i % 7 == 6 && end != AFTER_ITS_FIRST) {
      // A zombie, of which the parent can hear.
      while (state_of(p) != 'Z') sched_yield();
      if (end == WITH_THREADS) await(fd, 0);
    } else {
      await(fd, i % 3);
    }
    // The kernel tells of it by both while it holds the same lock: what a wait has found is told.
    find(p, fd, i / ENDS % 4, killed);
    CHECK(sigtimedwait(&set, NULL, &(struct timespec){0}) == SIGCHLD);
    CHECK(close(fd) == 0);
    if (i % 10 == 0) printf("child %d, end %d\n", p, end);
  }
  CHECK_ERRNO(waitpid(-1, NULL, WNOHANG), ECHILD);
  return guest_ok();
}
