// PTRACE_SEIZE of a task whose process is stopped: it says so at once, stays stopped where its tracer lets it go for ever, and goes on
// with its process.
#include "seized.h"

static char state_of(pid_t pid) {
  char path[64], text[512], state;
  sprintf(path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  CHECK(file && fgets(text, sizeof text, file));
  fclose(file);
  CHECK(sscanf(strrchr(text, ')'), ") %c", &state) == 1);
  return state;
}

static void *second(void *at) {
  int *pipes = at;
  pid_t tid = tid_self();
  CHECK(write(pipes[3], &tid, sizeof tid) == sizeof tid);
  for (;;) pause();
}

static pid_t waits(int signal, int pipes[5], bool has_thread) {
  CHECK(pipe(pipes) == 0 && pipe(pipes + 2) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    if (has_thread) start_thread(second, pipes);
    char byte;
    CHECK(read(pipes[0], &byte, 1) == 1);
    _exit(byte);
  }
  if (!has_thread) sleep_ms(5);
  int status;
  pid_t other = 0;
  if (has_thread) CHECK(read(pipes[2], &other, sizeof other) == sizeof other);
  CHECK(kill(pid, signal) == 0);
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == signal);
  pipes[4] = other;
  return pid;
}

static void ends(pid_t pid, int pipes[5]) {
  CHECK(write(pipes[1], "\x21", 1) == 1);
  check_exited(pid, 0x21);
  for (int i = 0; i < 4; i++) close(pipes[i]);
}

// Makes calls all the time.
static void *busy(void *file) {
  char bytes[64];
  for (;;) CHECK(pread(*(int *)file, bytes, sizeof bytes, 0) == sizeof bytes);
  return NULL;
}

// A process that is stopped wherever it is, beside a thread that waits or not: each of its threads says so, does nothing, and goes
// on.
static void stops_busy(bool has_thread) {
  int pipes[2], status;
  CHECK(pipe(pipes) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    int file = open("/proc/self/exe", O_RDONLY);
    pid_t tid = tid_self();
    pthread_t thread = has_thread ? start_thread(busy, &file) : pthread_self();
    CHECK(write(pipes[1], &tid, sizeof tid) == sizeof tid);
    if (has_thread) join_thread(thread);
    busy(&file);
  }
  pid_t tids[2];
  CHECK(read(pipes[0], tids, sizeof *tids) == sizeof *tids);
  sleep_ms(3);
  CHECK(kill(pid, SIGSTOP) == 0);
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  int count = threads_of(pid, tids, 2);
  CHECK(count == 1 + has_thread);
  for (int i = 0; i < count; i++) {
    CHECK(ptrace(PTRACE_SEIZE, tids[i], 0, PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(stop_of(tids[i]) == (stopped | SIGSTOP));
    CHECK(ptrace(PTRACE_LISTEN, tids[i], 0, 0) == 0);
  }
  CHECK(waitpid(-1, &status, WNOHANG | __WALL) == 0);
  CHECK(kill(pid, SIGCONT) == 0);
  for (int i = 0; i < count; i++) {
    CHECK(stop_of(tids[i]) == (stopped | SIGTRAP));
    CHECK(ptrace(PTRACE_DETACH, tids[i], 0, 0) == 0);
  }
  sleep_ms(1);
  CHECK(kill(pid, SIGKILL) == 0);
  check_killed(pid, SIGKILL);
  close(pipes[0]), close(pipes[1]);
}

int main(void) {
  int pipes[5];
  siginfo_t info;

  // It goes on with its process.
  for (int i = 0; i < 20; i++) {
    int signal = i % 2 ? SIGSTOP : SIGTSTP;
    pid_t pid = waits(signal, pipes, false);
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(stop_of(pid) == (stopped | signal));
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_signo == signal);
    CHECK(ptrace(PTRACE_LISTEN, pid, 0, 0) == 0);
    int status;
    CHECK(waitpid(pid, &status, WNOHANG | __WALL) == 0);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(stop_of(pid) == (stopped | SIGTRAP));
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(stop_of(pid) == SIGCONT);
    CHECK(ptrace(PTRACE_CONT, pid, 0, SIGCONT) == 0);
    if (i % 4 < 2) {
      CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
      CHECK(stop_of(pid) == (stopped | SIGTRAP));
      CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    }
    ends(pid, pipes);
  }

  // Its tracer lets it go on alone.
  pid_t pid = waits(SIGSTOP, pipes, false);
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (stopped | SIGSTOP));
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  ends(pid, pipes);

  // Its tracer lets it go for ever: it stays stopped.
  pid = waits(SIGSTOP, pipes, false);
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (stopped | SIGSTOP));
  CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  sleep_ms(5);
  CHECK(state_of(pid) == 'T');
  CHECK(kill(pid, SIGCONT) == 0);
  ends(pid, pipes);

  // Each of its threads says so.
  pid = waits(SIGSTOP, pipes, true);
  pid_t other = pipes[4];
  CHECK(ptrace(PTRACE_SEIZE, other, 0, 0) == 0);
  CHECK(stop_of(other) == (stopped | SIGSTOP));
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
  CHECK(stop_of(pid) == (stopped | SIGSTOP));
  CHECK(ptrace(PTRACE_DETACH, other, 0, 0) == 0 && ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  CHECK(kill(pid, SIGCONT) == 0);
  ends(pid, pipes);

  // Somebody else than its parent seizes it.
  pid = waits(SIGSTOP, pipes, false);
  pid_t tracer = fork();
  CHECK(tracer >= 0);
  if (tracer == 0) {
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    CHECK(stop_of(pid) == (stopped | SIGSTOP));
    CHECK(ptrace(PTRACE_LISTEN, pid, 0, 0) == 0);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(stop_of(pid) == (stopped | SIGTRAP));
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(stop_of(pid) == SIGCONT);
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    _exit(0);
  }
  check_exited(tracer, 0);
  ends(pid, pipes);

  for (int i = 0; i < 20; i++) stops_busy(i % 2);
  return guest_ok();
}
