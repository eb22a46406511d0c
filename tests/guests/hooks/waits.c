// wait4 and waitid: without waiting, where nothing is written; with it; and interrupted by a handler.
#include "rounds.h"
#include <sys/resource.h>
#include <sys/time.h>

static volatile sig_atomic_t caught;
static void on_alarm(int sig) { caught = sig; }

static pid_t child(int p[2], int code) {
  CHECK(pipe(p) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    char c;
    close(p[1]);
    CHECK(read(p[0], &c, 1) == 0);
    _exit(code);
  }
  CHECK(close(p[0]) == 0);
  return pid;
}

static void check(int round) {
  int p[2], status = 0x1234567;
  struct rusage use;
  siginfo_t info;
  memset(&use, 0x77, sizeof use), memset(&info, 0x77, sizeof info);
  pid_t pid = child(p, 7);
  CHECK(wait4(pid, &status, WNOHANG, &use) == 0 && status == 0x1234567 && ((char *)&use)[3] == 0x77);
  CHECK(wait4(-1, NULL, WNOHANG | WUNTRACED, NULL) == 0);
  CHECK(waitid(P_PID, pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0 && info.si_signo == 0);
  CHECK(close(p[1]) == 0);
  while ((status = wait4(pid, NULL, WNOHANG, NULL)) == 0) sched_yield();
  CHECK(status == pid);
  CHECK_ERRNO(wait4(pid, &status, WNOHANG, NULL), ECHILD);
  CHECK_ERRNO(waitid(P_ALL, 0, &info, WEXITED | WNOHANG), ECHILD);
  CHECK_ERRNO(wait4(-1, &status, 0x10, NULL), EINVAL);

  // It ends while it is waited for.
  pid = child(p, 9);
  CHECK(close(p[1]) == 0 && wait4(pid, &status, 0, &use) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 9);
  CHECK(use.ru_maxrss > 0 && use.ru_maxrss < 1 << 30);

  // It is looked at, and is still there.
  pid = child(p, 11);
  CHECK(close(p[1]) == 0 && waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == pid);
  CHECK(info.si_status == 11 && info.si_code == CLD_EXITED && info.si_signo == SIGCHLD);
  CHECK(waitid(P_PID, pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid);

  // A handler comes first.
  struct itimerval t = {{0, 3000}, {0, 3000}}, off = {{0, 0}, {0, 0}}; // the first may come before the call
  pid = child(p, 13);
  caught = 0, status = 0x1234567;
  CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
  CHECK_ERRNO(wait4(pid, &status, 0, NULL), EINTR);
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  CHECK(caught == SIGALRM && status == 0x1234567);
  CHECK(kill(pid, SIGKILL) == 0 && wait4(pid, &status, 0, NULL) == pid && WTERMSIG(status) == SIGKILL);
  CHECK(close(p[1]) == 0);

  // The status has nowhere to go, and the child is gone all the same.
  pid = child(p, 15);
  CHECK(close(p[1]) == 0 && waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0);
  CHECK_ERRNO(wait4(pid, (int *)8, WNOHANG, NULL), EFAULT);
  printf("round %d: %d\n", round, pid);
}

int main(void) {
  on_signal(SIGALRM, on_alarm, 0);
  rounds(check);
  return guest_ok();
}
