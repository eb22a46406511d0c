// What a tracer hears of its tracee's children: forks, vforks, threads, programs that are executed, ends.
#include "../guest.h"
#include <sys/ptrace.h>

static void *nothing(void *arg) { return arg; }

static int tracee(const char *self) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  pid_t pid = fork();
  if (pid == 0) _exit(11);
  CHECK(waitpid(pid, NULL, 0) == pid);
  pid = vfork();
  if (pid == 0) _exit(12);
  CHECK(waitpid(pid, NULL, 0) == pid);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  execl(self, self, "again", NULL);
  _exit(99);
}

int main(int argc, char **argv) {
  if (argc > 1) return 13;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) return tracee(argv[0]);
  int status;
  CHECK(waitpid(child, &status, __WALL) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACECLONE |
                 PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
  CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, options) == 0);
  int seen[8] = {0}, begun = 0, ends = 0;
  pid_t pid = child;
  for (;;) {
    int signal = 0;
    CHECK(ptrace(PTRACE_CONT, pid, 0, signal) == 0);
  next:
    pid = waitpid(-1, &status, __WALL);
    CHECK(pid > 0);
    if (WIFEXITED(status)) {
      ends++;
      printf("%s ends with %d\n", pid == child ? "the tracee" : "a child", WEXITSTATUS(status));
      if (pid == child) {
        CHECK(WEXITSTATUS(status) == 13);
        break;
      }
      goto next;
    }
    CHECK(WIFSTOPPED(status));
    int event = status >> 16;
    unsigned long message = 0;
    if (event != 0) {
      CHECK(WSTOPSIG(status) == SIGTRAP);
      CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0);
      seen[event]++;
    }
    if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
      CHECK(pid == child && message > 0 && (pid_t)message != child);
    } else if (event == PTRACE_EVENT_EXEC) {
      CHECK((pid_t)message == child);
    } else if (event == PTRACE_EVENT_EXIT) {
      CHECK(WIFEXITED((int)message));
    } else if (event == 0 && WSTOPSIG(status) == SIGSTOP) {
      CHECK(pid != child);
      begun++;
    } else if (event == 0) {
      // It is told of its children's ends.
      CHECK(WSTOPSIG(status) == SIGCHLD);
    }
  }
  printf("%d %d %d %d %d %d, %d begun, %d ended\n", seen[1], seen[2], seen[3], seen[4], seen[5], seen[6], begun, ends);
  CHECK(seen[PTRACE_EVENT_FORK] == 1 && seen[PTRACE_EVENT_VFORK] == 1 && seen[PTRACE_EVENT_VFORK_DONE] == 1);
  CHECK(seen[PTRACE_EVENT_CLONE] == 1 && seen[PTRACE_EVENT_EXEC] == 1 && seen[PTRACE_EVENT_EXIT] == 4);
  CHECK(begun == 3 && ends == 4);
  return guest_ok();
}
