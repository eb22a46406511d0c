// A tracer that hears of calls (as strace -p does) and a process that is stopped in the middle of one:
// attached to after its stop, the call is entered anew when it goes on; stopped while it is traced, the call
// comes back first, in a thread that only shares the stop, too; and a tracee that is left stopped
// (PTRACE_LISTEN) stops again when it is asked to.
#include "seized.h"

enum { ENTRY = PTRACE_SYSCALL_INFO_ENTRY, EXIT = PTRACE_SYSCALL_INFO_EXIT };

static void nap(void) {
  struct timespec wait = {0, 20 * 1000 * 1000};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, &wait) == EINTR) {
  }
}

static pid_t other_tid;

static void *naps(void *unused) {
  __atomic_store_n(&other_tid, gettid(), __ATOMIC_RELEASE);
  for (;;) nap();
  return unused;
}

static void go_on(pid_t tid, int signal) { CHECK(ptrace(PTRACE_SYSCALL, tid, 0, signal) == 0); }

static int op_of(pid_t tid) {
  struct __ptrace_syscall_info info;
  CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) > 0);
  return info.op;
}

// Lets it go on to some entries and exits, which take turns and begin with an entry.
static void see_calls(pid_t tid) {
  for (int i = 0; i < 6; i++) {
    go_on(tid, 0);
    CHECK(stop_of(tid) == (SIGTRAP | 0x80));
    CHECK(op_of(tid) == (i % 2 == 0 ? ENTRY : EXIT));
  }
}

// A task in a call is to stop with its process: goes on with it up to the stop itself, in front of which it
// has come back from its call. Whether it was the one that got the signal.
static bool comes_to_stop(pid_t tid) {
  bool in_call = true, gets_signal = false;
  for (;;) {
    int stop = stop_of(tid);
    if (stop == (stopped | SIGSTOP)) {
      CHECK(!in_call);
      return gets_signal;
    }
    if (stop == SIGSTOP) {
      CHECK(!in_call);
      gets_signal = true;
      go_on(tid, SIGSTOP);
    } else {
      CHECK(stop == (SIGTRAP | 0x80));
      CHECK(op_of(tid) == (in_call ? EXIT : ENTRY));
      in_call = !in_call;
      go_on(tid, 0);
    }
  }
}

int main(void) {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, naps, NULL) == 0);
    pid_t tid;
    while ((tid = __atomic_load_n(&other_tid, __ATOMIC_ACQUIRE)) == 0) nap();
    CHECK(write(pipes[1], &tid, sizeof tid) == sizeof tid);
    for (;;) nap();
  }
  pid_t tids[2] = {pid, 0};
  CHECK(read(pipes[0], &tids[1], sizeof tids[1]) == sizeof tids[1]);
  int status;

  // Stopped, and attached to then.
  CHECK(kill(pid, SIGSTOP) == 0);
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
  for (int i = 0; i < 2; i++) {
    CHECK(ptrace(PTRACE_SEIZE, tids[i], 0, PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, tids[i], 0, 0) == 0);
    CHECK(stop_of(tids[i]) == (stopped | SIGSTOP));
    CHECK(ptrace(PTRACE_LISTEN, tids[i], 0, 0) == 0);
    // It is stopped, and says it again.
    CHECK(ptrace(PTRACE_INTERRUPT, tids[i], 0, 0) == 0);
    CHECK(stop_of(tids[i]) == (stopped | SIGSTOP));
    CHECK(ptrace(PTRACE_LISTEN, tids[i], 0, 0) == 0);
  }
  CHECK(kill(pid, SIGCONT) == 0);
  for (int i = 0; i < 2; i++) CHECK(stop_of(tids[i]) == (stopped | SIGTRAP));
  // SIGCONT is somebody's, or nobody's yet.
  for (int i = 0; i < 2; i++) {
    go_on(tids[i], 0);
    int stop = stop_of(tids[i]);
    if (stop == SIGCONT) {
      go_on(tids[i], SIGCONT);
      stop = stop_of(tids[i]);
    }
    CHECK(stop == (SIGTRAP | 0x80) && op_of(tids[i]) == ENTRY);
    go_on(tids[i], 0);
    CHECK(stop_of(tids[i]) == (SIGTRAP | 0x80) && op_of(tids[i]) == EXIT);
    see_calls(tids[i]);
  }

  // Stopped in their calls.
  for (int i = 0; i < 2; i++) {
    go_on(tids[i], 0);
    CHECK(stop_of(tids[i]) == (SIGTRAP | 0x80) && op_of(tids[i]) == ENTRY);
    go_on(tids[i], 0);
  }
  CHECK(syscall(SYS_tgkill, pid, tids[0], SIGSTOP) == 0);
  for (int i = 0; i < 2; i++) {
    CHECK(comes_to_stop(tids[i]) == (i == 0));
    CHECK(ptrace(PTRACE_LISTEN, tids[i], 0, 0) == 0);
  }
  for (int i = 0; i < 2; i++) {
    CHECK(ptrace(PTRACE_INTERRUPT, tids[i], 0, 0) == 0);
    CHECK(stop_of(tids[i]) == (stopped | SIGSTOP));
    CHECK(ptrace(PTRACE_DETACH, tids[i], 0, 0) == 0);
  }
  CHECK(kill(pid, SIGCONT) == 0);
  CHECK(kill(pid, SIGKILL) == 0);
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  return guest_ok();
}
