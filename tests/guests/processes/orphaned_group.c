// A stopped process whose parent is killed, and whose group becomes an orphaned one when the group's leader ends: the kernel sends
// SIGHUP and SIGCONT to it. One in a group that has been an orphaned one before stays stopped, whoever ends.
#include "../guest.h"

static int news[2];

static void on_hangup(int sig, siginfo_t *info, void *context) {
  (void)context;
  dprintf(news[1], "%d %d %d\n", sig, info->si_code == SI_KERNEL, info->si_pid);
}

// Its leader ends with 3 when `parent`, which has made a stopped child, has ended.
static pid_t group(bool is_caught, bool is_killed) {
  pid_t leader = fork();
  if (leader != 0) return leader;
  CHECK(setpgid(0, 0) == 0);
  pid_t parent = fork();
  if (parent == 0) {
    pid_t stopped = fork();
    if (stopped == 0) {
      if (is_caught) {
        struct sigaction action = {.sa_sigaction = on_hangup, .sa_flags = SA_SIGINFO};
        CHECK(sigaction(SIGHUP, &action, NULL) == 0 && sigaction(SIGCONT, &action, NULL) == 0);
      }
      CHECK(raise(SIGSTOP) == 0);
      if (is_caught) _exit(0);
      for (;;) usleep(1000);
    }
    int status;
    CHECK(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status));
    if (is_killed) raise(SIGKILL);
    _exit(2);
  }
  if (is_killed) check_killed(parent, SIGKILL);
  else check_exited(parent, 2);
  _exit(3);
}

int main(void) {
  // A shell may have it ignored (nohup).
  signal(SIGHUP, SIG_DFL);
  char text[200] = "";
  size_t len = 0;
  // The pipe's end tells that all have ended.
  CHECK(pipe(news) == 0);
  for (int i = 0; i < 4; i++) check_exited(group(i & 1, i & 2), 3);
  CHECK(close(news[1]) == 0);
  for (ssize_t got; (got = read(news[0], text + len, sizeof text - 1 - len)) > 0;) len += (size_t)got;
  CHECK(strcmp(text, "18 1 0\n1 1 0\n18 1 0\n1 1 0\n") == 0 || strcmp(text, "1 1 0\n18 1 0\n1 1 0\n18 1 0\n") == 0);
  puts(text);

  // Its group is an orphaned one from the beginning: its parent is the leader of its session.
  pid_t leader = fork();
  if (leader == 0) {
    CHECK(setsid() == getpid());
    pid_t stopped = fork();
    if (stopped == 0) raise(SIGSTOP), _exit(7);
    int status;
    CHECK(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status));
    pid_t other = fork();
    if (other == 0) _exit(0);
    check_exited(other, 0);
    usleep(20000);
    CHECK(waitpid(stopped, &status, WNOHANG | WCONTINUED) == 0);
    CHECK(kill(stopped, SIGCONT) == 0);
    check_exited(stopped, 7);
    _exit(0);
  }
  check_exited(leader, 0);
  return guest_ok();
}
