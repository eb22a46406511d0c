// The threads of a stopped process that their tracer lets go on all the same: they compute by turns, without a stop that nobody has
// asked for, and stop again for a new signal.
#include "seized.h"
#include <sys/mman.h>

static volatile unsigned long *rounds;

static int told[2], go[2];

// All calls come before the first round: text that is to count is changed at one.
static void *counts(void *which) {
  volatile unsigned long *mine = rounds + 8 * (long)which;
  pid_t tid = tid_self();
  CHECK(write(told[1], &tid, sizeof tid) == sizeof tid);
  char byte;
  CHECK(read(go[0], &byte, 1) == 1);
  for (;;) ++*mine;
  return NULL;
}

int main(void) {
  rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(rounds != MAP_FAILED);
  CHECK(pipe(told) == 0 && pipe(go) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    start_thread(counts, (void *)1);
    counts((void *)0);
  }
  pid_t tids[2], other;
  int status;
  for (int i = 0; i < 2; i++) CHECK(read(told[0], tids + i, sizeof *tids) == sizeof *tids);
  if (*tids != pid) other = *tids, *tids = pid, tids[1] = other;
  CHECK(write(go[1], "go", 2) == 2);
  sleep_ms(3);
  CHECK(kill(pid, SIGSTOP) == 0);
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
  for (int i = 0; i < 2; i++) {
    CHECK(ptrace(PTRACE_SEIZE, tids[i], 0, 0) == 0);
    CHECK(stop_of(tids[i]) == (stopped | SIGSTOP));
  }
  for (int i = 0; i < 2; i++) CHECK(ptrace(PTRACE_CONT, tids[i], 0, 0) == 0);
  for (int turn = 0; turn < 3; turn++) {
    unsigned long before[2] = {rounds[0], rounds[8]};
    for (int i = 0; i < 2; i++)
      while (rounds[8 * i] == before[i]) {
        CHECK(waitpid(-1, &status, WNOHANG | __WALL) == 0);
        sleep_ms(1);
      }
  }
  CHECK(waitpid(-1, &status, WNOHANG | __WALL) == 0);
  // A new signal for one of them stops both anew.
  CHECK(syscall(SYS_tgkill, pid, tids[1], SIGTSTP) == 0);
  CHECK(stop_of(tids[1]) == SIGTSTP);
  CHECK(ptrace(PTRACE_CONT, tids[1], 0, SIGTSTP) == 0);
  for (int i = 0; i < 2; i++) CHECK(stop_of(tids[i]) == (stopped | SIGTSTP));
  CHECK(kill(pid, SIGKILL) == 0);
  int ended = 0;
  while (ended < 2) {
    pid_t who = waitpid(-1, &status, __WALL);
    CHECK(who == tids[0] || who == tids[1]);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ended++;
  }
  puts("guest ok");
  return 0;
}
