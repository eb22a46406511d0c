// Signals that arrive while a child is being made reach it or its parent, never nobody: stops, kills, and handlers.
#include "../guest.h"

static volatile int got;
static void handler(int sig) { (void)sig, got++; }

int main(void) {
  int status, sigs[] = {SIGSTOP, SIGTERM, SIGUSR1};
  for (int i = 0; i < 60; i++) {
    int sig = sigs[i % 3];
    got = 0;
    on_signal(SIGUSR1, handler, 0);
    sigset_t block, old;
    sigemptyset(&block), sigaddset(&block, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &block, &old) == 0);
    pid_t pid = fork();
    if (pid == 0) {
      while (!got) sigsuspend(&old);
      _exit(20);
    }
    CHECK(kill(pid, sig) == 0);
    if (sig == SIGSTOP) {
      CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
      CHECK(kill(pid, SIGUSR1) == 0 && kill(pid, SIGCONT) == 0);
    }
    if (sig == SIGTERM) check_killed(pid, SIGTERM);
    else check_exited(pid, 20);
    CHECK(got == 0 && sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  }
  // A group is killed while its members are forking.
  pid_t leader = fork();
  if (leader == 0) {
    setpgid(0, 0);
    for (int i = 0; i < 3; i++) {
      if (fork() != 0) continue;
      for (;;) {
        if (fork() == 0) _exit(0);
        wait(NULL);
      }
    }
    for (;;) pause();
  }
  setpgid(leader, leader);
  usleep(5000);
  CHECK(kill(-leader, SIGKILL) == 0);
  check_killed(leader, SIGKILL);
  printf("%d\n", leader);
  return guest_ok();
}
