// cflags: -m32
// needs: /usr/lib32/crt1.o
// Children: fork, vfork, execve of itself, and all ways to wait for them.
#include "../guest.h"
#include <sys/resource.h>
#include <spawn.h>

extern char **environ;

int main(int argc, char **argv) {
  if (argc == 2) return atoi(argv[1]);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(3);
  int status;
  struct rusage usage;
  memset(&usage, 0xff, sizeof usage);
  CHECK(wait4(child, &status, 0, &usage) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  CHECK(usage.ru_utime.tv_sec == 0 && usage.ru_utime.tv_usec < 1000000 && usage.ru_maxrss > 0);
  child = vfork();
  CHECK(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "family", "7", NULL);
    _exit(99);
  }
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
  CHECK(info.si_signo == SIGCHLD && info.si_code == CLD_EXITED && info.si_pid == child && info.si_status == 7);
  check_exited(child, 7);
  char *args[] = {"family", "9", NULL};
  CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, args, environ) == 0);
  check_exited(child, 9);
  child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    pause();
  }
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(waitpid(child, &status, WNOHANG) == 0);
  CHECK(kill(child, SIGCONT) == 0 && waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
  CHECK(kill(child, SIGKILL) == 0);
  check_killed(child, SIGKILL);
  CHECK_ERRNO(waitpid(-1, &status, 0), ECHILD);
  CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0 && usage.ru_maxrss > 0);
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
  limit.rlim_cur = 0;
  CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
  CHECK(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0);
  struct rlimit room = {64 << 20, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &room) == 0 && getrlimit(RLIMIT_AS, &room) == 0);
  CHECK(room.rlim_cur == 64 << 20 && room.rlim_max == RLIM_INFINITY);
  CHECK(mmap(NULL, 40 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  CHECK(mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
  puts("children have ended");
  return guest_ok();
}
