// What /proc says of a process's state and tracer is what the program would see by itself: stopped, held by its own
// tracer, asleep, or running; and never that it stands in a stop of somebody else's.
#include "../guest.h"
#include <sys/ptrace.h>

static void read_text(pid_t pid, const char *name, char *text, size_t len) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  ssize_t got = read(fd, text, len - 1);
  CHECK(got > 0);
  text[got] = 0;
  close(fd);
}

static char state_in_stat(pid_t pid) {
  char text[4096];
  read_text(pid, "stat", text, sizeof text);
  return strrchr(text, ')')[2];
}

static char state_in_status(pid_t pid, pid_t tracer) {
  char text[8192], line[64];
  read_text(pid, "status", text, sizeof text);
  snprintf(line, sizeof line, "\nTracerPid:\t%d\n", tracer);
  CHECK(strstr(text, line));
  char *state = strstr(text, "\nState:\t");
  CHECK(state);
  const char *name = state[8] == 'T'   ? " (stopped)\n"
                     : state[8] == 't' ? " (tracing stop)\n"
                     : state[8] == 'R' ? " (running)\n"
                                       : " (sleeping)\n";
  CHECK(strncmp(state + 9, name, strlen(name)) == 0);
  return state[8];
}

static bool runs(char state) { return state == 'R' || state == 'S'; }

static void compute(void) {
  for (;;) syscall(SYS_getppid);
}

static void echo(int from, int to) {
  char byte;
  while (read(from, &byte, 1) == 1) CHECK(write(to, &byte, 1) == 1);
  _exit(5);
}

static int seen(pid_t pid, int options) {
  int status;
  CHECK(waitpid(pid, &status, options) == pid);
  return status;
}

int main(void) {
  int to[2], from[2];
  CHECK(pipe(to) == 0 && pipe(from) == 0);
  pid_t computes = fork();
  CHECK(computes >= 0);
  if (computes == 0) compute();
  pid_t answers = fork();
  CHECK(answers >= 0);
  if (answers == 0) {
    close(to[1]);
    echo(to[0], from[1]);
  }
  CHECK(runs(state_in_stat(computes)) && runs(state_in_status(computes, 0)));
  for (int round = 0; round < 20; round++) {
    CHECK(runs(state_in_stat(answers)) && runs(state_in_status(answers, 0)));
    CHECK(kill(answers, SIGSTOP) == 0);
    int status = seen(answers, WUNTRACED);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(state_in_stat(answers) == 'T' && state_in_status(answers, 0) == 'T');
    CHECK(kill(answers, SIGCONT) == 0);
    CHECK(WIFCONTINUED(seen(answers, WCONTINUED)));
    char byte = 'a';
    CHECK(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1);
    CHECK(runs(state_in_status(answers, 0)) && runs(state_in_stat(answers)));
  }
  CHECK(state_in_status(getpid(), 0) == 'R' && state_in_stat(getpid()) == 'R');

  // Traced by the program itself: it is stopped by its tracer, whether its process is stopped, too, or not.
  CHECK(ptrace(PTRACE_SEIZE, computes, 0, 0) == 0);
  CHECK(runs(state_in_status(computes, getpid())));
  CHECK(ptrace(PTRACE_INTERRUPT, computes, 0, 0) == 0);
  CHECK(WIFSTOPPED(seen(computes, 0)));
  CHECK(state_in_status(computes, getpid()) == 't' && state_in_stat(computes) == 't');
  CHECK(ptrace(PTRACE_CONT, computes, 0, 0) == 0);
  CHECK(runs(state_in_status(computes, getpid())));
  CHECK(kill(computes, SIGSTOP) == 0);
  CHECK(WSTOPSIG(seen(computes, 0)) == SIGSTOP);
  CHECK(ptrace(PTRACE_CONT, computes, 0, (void *)SIGSTOP) == 0);
  CHECK(seen(computes, 0) >> 16 == 128);
  CHECK(ptrace(PTRACE_LISTEN, computes, 0, 0) == 0);
  CHECK(state_in_status(computes, getpid()) == 't');
  CHECK(kill(computes, SIGKILL) == 0);
  check_killed(computes, SIGKILL);

  // It comes to sleep in the end, after its stops.
  while (state_in_stat(answers) != 'S') sched_yield();
  close(to[1]);
  check_exited(answers, 5);
  return guest_ok();
}
