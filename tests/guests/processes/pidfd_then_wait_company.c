// Of a child whose pidfd is readable, a wait that does not wait tells, also where the child shares memory with its parent, is in the
// parent's own address space, or is the first of a pid namespace; and where the pidfd itself does not wait (O_NONBLOCK).
#include "../guest.h"
#include <poll.h>

static volatile int *shared;

static int sleeps(void *arg) {
  (void)arg;
  for (;;) pause();
}

enum child { WORKS, SLEEPS, IN_OUR_MEMORY, FIRST_OF_NAMESPACE, EXITS, CHILDREN };

static pid_t first_of_namespace(void) {
  pid_t p = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
  // Without the right to do so, it is a child like others.
  return p < 0 ? fork() : p;
}

static pid_t begin(enum child child) {
  static char stack[16384] __attribute__((aligned(16)));
  if (child == IN_OUR_MEMORY) return clone(sleeps, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
  pid_t p = child == FIRST_OF_NAMESPACE ? first_of_namespace() : fork();
  if (p != 0) return p;
  if (child == WORKS)
    for (;;) ++*shared;
  if (child == FIRST_OF_NAMESPACE) CHECK(fork() >= 0);
  if (child == EXITS) _exit(0);
  sleeps(NULL);
  _exit(1);
}

// By any of its threads.
static void *find(void *arg) {
  int fd = *(int *)arg;
  struct pollfd polled = {fd, POLLIN, 0};
  siginfo_t info = {0};
  CHECK(poll(&polled, 1, 20000) == 1);
  int nonblocking = fcntl(fd, F_GETFL) & O_NONBLOCK;
  CHECK(waitid(P_PIDFD, fd, &info, WEXITED | WNOWAIT | (nonblocking ? 0 : WNOHANG)) == 0);
  CHECK(info.si_pid > 0);
  CHECK(waitpid(info.si_pid, NULL, WNOHANG) == info.si_pid);
  return NULL;
}

int main(void) {
  shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  for (int i = 0; i < 4 * CHILDREN; i++) {
    enum child child = i % CHILDREN;
    pid_t p = begin(child);
    CHECK(p > 0);
    int fd = (int)syscall(SYS_pidfd_open, p, 0);
    CHECK(fd >= 0);
    if (i % 2) CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    usleep(i * 40);
    CHECK(kill(p, SIGKILL) == 0);
    if (i % 3) find(&fd);
    else join_thread(start_thread(find, &fd));
    CHECK(close(fd) == 0);
  }
  printf("%d\n", *shared);
  return guest_ok();
}
