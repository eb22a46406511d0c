// One process ends, by exit_group, by an exec or by a signal, while its threads compute into memory that another
// process shares, which goes on: what that sees of their last stores, and when, is the same in replay.
#include "../guest.h"

static volatile unsigned long counts[3], seen[64][3];
static volatile int goes, parent_pid;
static char stack[256 << 10] __attribute__((aligned(16)));
static char *self;

static void *counts_up(void *arg) {
  volatile unsigned long *mine = &counts[(long)arg];
  for (;;) ++*mine;
  return NULL;
}

static void put(const char *what) {
  if (write(1, what, strlen(what)) < 0) _exit(99);
}

// The process beside: it has no C library of its own, because it shares the thread-local memory of its maker.
static int looks(void *arg) {
  (void)arg;
  goes = 1;
  int many = 0;
  unsigned long spun = 0;
  // It computes too while the other one ends.
  while (syscall(SYS_getppid) == parent_pid || many < 32) {
    for (int i = 0; i < 3; i++) seen[many % 64][i] = counts[i];
    many++;
    for (int i = 0; i < 3000; i++) spun += counts[i % 3] & 1;
  }
  for (int k = 0; k < 4; k++) {
    char line[128];
    int at = (many + 64 - 1 - k) % 64;
    snprintf(line, sizeof line, "%d: %lu %lu %lu (%lu)\n", many, seen[at][0], seen[at][1], seen[at][2], spun);
    put(line);
  }
  syscall(SYS_exit_group, 0);
  return 0;
}

static void beside(int how) {
  parent_pid = getpid();
  for (long i = 0; i < 2; i++) start_thread(counts_up, (void *)i);
  CHECK(clone(looks, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) > 0);
  while (!goes) sched_yield();
  // Its own thread counts as well.
  while (counts[2] < 3000000) counts[2]++;
  if (how == 0) syscall(SYS_exit_group, 0);
  if (how == 1) execl("/proc/self/exe", self, "ends", NULL);
  if (how == 2) kill(getpid(), SIGKILL);
  for (;;) counts[2]++;
}

int main(int argc, char **argv) {
  self = argv[0];
  if (argc > 1) return 0;
  for (int how = 0; how < 5; how++) {
    int alive[2];
    CHECK(pipe(alive) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      close(alive[0]);
      beside(how);
    }
    close(alive[1]);
    if (how >= 3) {
      usleep(20000);
      CHECK(kill(child, how == 3 ? SIGKILL : SIGTERM) == 0);
    }
    if (how < 2)
      check_exited(child, 0);
    else
      check_killed(child, how == 4 ? SIGTERM : SIGKILL);
    char c;
    CHECK(read(alive[0], &c, 1) == 0);
    close(alive[0]);
    printf("%d is over\n", how);
  }
  return guest_ok();
}
