// wait, waitpid, wait4, waitid: by pid, group and any; WNOHANG, WNOWAIT, usage; errors.
#include "../guest.h"
#include <sys/resource.h>

static pid_t child(int code) {
  pid_t p = fork();
  CHECK(p >= 0);
  if (p == 0) _exit(code);
  return p;
}

int main(void) {
  int status, hold[2];
  char c;
  CHECK_ERRNO(wait(&status), ECHILD);
  CHECK(pipe(hold) == 0);
  pid_t blocked = fork();
  if (blocked == 0) {
    close(hold[1]);
    (void)!read(hold[0], &c, 1);
    _exit(1);
  }
  CHECK(waitpid(-1, &status, WNOHANG) == 0);
  pid_t a = child(5);
  siginfo_t info = {0};
  CHECK(waitid(P_PID, a, &info, WEXITED | WNOWAIT) == 0);
  CHECK(info.si_pid == a && info.si_status == 5 && info.si_code == CLD_EXITED && info.si_signo == SIGCHLD);
  check_exited(a, 5);
  CHECK_ERRNO(waitpid(a, &status, 0), ECHILD);
  pid_t b = child(6);
  struct rusage usage;
  CHECK(wait4(b, &status, 0, &usage) == b && WEXITSTATUS(status) == 6);
  pid_t g = fork();
  if (g == 0) {
    setpgid(0, 0);
    _exit(7);
  }
  setpgid(g, g);
  CHECK(waitid(P_PGID, g, &info, WEXITED) == 0 && info.si_pid == g && info.si_status == 7);
  info.si_pid = 1;
  CHECK(waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
  CHECK_ERRNO(waitid(P_ALL, 0, &info, 0), EINVAL);
  CHECK_ERRNO(waitpid(getpid(), &status, 0), ECHILD);
  CHECK(close(hold[1]) == 0);
  CHECK(wait(&status) == blocked && WEXITSTATUS(status) == 1);
  printf("%d %d %d, %ld kB\n", a, b, g, usage.ru_maxrss);
  return guest_ok();
}
