// A process that shares memory and makes calls that need not stop has handlers called after them, and is stopped at any moment:
// also while a handler is about to be called. What others do to the memory meanwhile comes in its place.
#include "../guest.h"

static volatile long handled;

static void count_it(int signal) {
  (void)signal;
  handled++;
}

static void wait_us(long us) {
  struct timespec t = {0, us * 1000};
  nanosleep(&t, NULL);
}

// Sends `target` a signal, and soon after stops it for a moment, again and again.
static pid_t stopper(pid_t target, volatile long *shared) {
  pid_t child = fork();
  if (child) return child;
  CHECK(munmap((void *)shared, PAGE) == 0);
  for (int i = 0; i < 400; i++) {
    wait_us(200);
    // It has the higher number: where both wait, SIGSTOP comes first.
    CHECK(kill(target, SIGVTALRM) == 0);
    for (volatile int n = 0; n < i % 40 * 1000; n++) {
    }
    // To the thread: the kernel brings what is the whole process's later.
    CHECK(syscall(SYS_tgkill, target, target, SIGSTOP) == 0);
    wait_us(100);
    CHECK(kill(target, SIGCONT) == 0);
  }
  _exit(0);
}

int main(void) {
  volatile long *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  on_signal(SIGVTALRM, count_it, SA_RESTART);
  pid_t child = fork();
  if (child == 0) {
    // Most of its time goes by in these calls: a signal comes when they have been made.
    static char buffer[16384];
    int file = open("/proc/self/exe", O_RDONLY);
    CHECK(file >= 0);
    long sum = 0;
    for (long n = 1; !shared[2]; n++) {
      shared[0] = n;
      sum = sum * 31 + shared[1] + (shared[0] == n) + handled;
      sum += pread(file, buffer, sizeof buffer, 0) > 0;
    }
    shared[3] = sum;
    CHECK(handled > 0);
    _exit(0);
  }
  pid_t other = stopper(child, shared);
  int status, ended = 0;
  while (!ended) {
    shared[1]++;
    wait_us(100);
    ended = waitpid(other, &status, WNOHANG) != 0;
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  shared[2] = 1;
  CHECK(kill(child, SIGCONT) == 0);
  check_exited(child, 0);
  printf("%ld %ld\n", shared[0], shared[3]);
  return guest_ok();
}
