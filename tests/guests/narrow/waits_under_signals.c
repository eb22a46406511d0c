// cflags: -m32
// needs: /usr/lib32/crt1.o
// A 32-bit tracer waits for a task that is not its child, again and again, while signals come to it: it gets what it
// waits for, or hears that a signal has interrupted it.
#include "../guest.h"
#include <sys/ptrace.h>

enum { ROUNDS = 150 };

static int wait_stop(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
  return WSTOPSIG(status);
}

static volatile int came;
static void count(int sig) { came += sig > 0; }

static void child(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  pid_t grandchild = fork();
  CHECK(grandchild >= 0);
  if (grandchild == 0)
    for (;;) raise(SIGUSR2);
  check_killed(grandchild, SIGKILL);
  _exit(3);
}

static pid_t sender(pid_t to) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    for (;;) {
      kill(to, SIGUSR1);
      usleep(100);
    }
  return pid;
}

static pid_t begin(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) child();
  CHECK(wait_stop(pid) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEFORK) == 0);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0 && wait_stop(pid) == SIGTRAP);
  return pid;
}

int main(void) {
  pid_t pid = begin();
  unsigned long message;
  CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0);
  pid_t grandchild = (pid_t)message;
  CHECK(wait_stop(grandchild) == SIGSTOP);
  CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);

  on_signal(SIGUSR1, count, SA_RESTART);
  pid_t from = sender(getpid());
  int interrupted = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (round == ROUNDS / 2) on_signal(SIGUSR1, count, 0);
    CHECK(ptrace(PTRACE_CONT, grandchild, 0, 0) == 0);
    int status = 0;
    pid_t got;
    while ((got = waitpid(grandchild, &status, __WALL)) == -1) {
      CHECK(errno == EINTR && round >= ROUNDS / 2);
      interrupted++;
    }
    if (got != grandchild) fprintf(stderr, "round %d: got %d, not %d\n", round, got, grandchild);
    CHECK(got == grandchild && WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR2);
  }
  CHECK(kill(from, SIGKILL) == 0);
  check_killed(from, SIGKILL);
  printf("%d signals, %d times interrupted\n", came, interrupted);
  CHECK(kill(grandchild, SIGKILL) == 0);
  check_killed(grandchild, SIGKILL);
  check_exited(pid, 3);
  return guest_ok();
}
