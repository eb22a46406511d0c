// A process is killed in a hooked call, or just behind one, while another one shares its memory: what it had stored before that
// call is seen there, in replay too. (It does hardly anything but make calls.)
#include "../guest.h"

static volatile unsigned long before, behind;
static volatile int parent_pid;
static int zero;
static char stack[256 << 10] __attribute__((aligned(16)));

static int looks(void *arg) {
  (void)arg;
  while (syscall(SYS_getppid) == parent_pid) {}
  char line[128];
  snprintf(line, sizeof line, "%lu %lu\n", before, behind);
  if (write(1, line, strlen(line)) < 0) _exit(99);
  syscall(SYS_exit_group, 0);
  return 0;
}

static void calls(int how) {
  parent_pid = getpid();
  CHECK(clone(looks, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) > 0);
  char byte;
  for (;;) {
    before++;
    if (how == 0) CHECK(read(zero, &byte, 1) == 1);
    if (how == 1) sched_yield();
    if (how == 2) getppid();
    behind++;
  }
}

int main(void) {
  // The dynamic linker looks each function up at its first call, and faults there on purpose.
  parent_pid = syscall(SYS_getppid);
  sched_yield();
  getppid();
  zero = open("/dev/zero", O_RDONLY);
  char byte;
  CHECK(read(zero, &byte, 1) == 1);
  for (int round = 0; round < 12; round++) {
    int alive[2];
    CHECK(pipe(alive) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      close(alive[0]);
      calls(round % 3);
    }
    close(alive[1]);
    usleep(5000 + 700 * round);
    CHECK(kill(child, SIGKILL) == 0);
    check_killed(child, SIGKILL);
    char c;
    CHECK(read(alive[0], &c, 1) == 0);
    close(alive[0]);
  }
  return guest_ok();
}
