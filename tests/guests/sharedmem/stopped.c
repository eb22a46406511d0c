// A process that shares memory is stopped where it computes, by one that has no part in that memory, and others change the memory
// before it goes on.
#include "../guest.h"

// Stops `target` now and then until it has ended.
static pid_t stopper(pid_t target, volatile long *shared) {
  pid_t child = fork();
  if (child) return child;
  CHECK(munmap((void *)shared, PAGE) == 0);
  for (int i = 0; i < 12; i++) {
    struct timespec t = {0, 300000 + i % 5 * 700000};
    nanosleep(&t, NULL);
    CHECK(kill(target, SIGSTOP) == 0);
    sleep_ms(i % 3 * 6);
    CHECK(kill(target, SIGCONT) == 0);
  }
  _exit(0);
}

int main(void) {
  volatile long *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  for (int round = 0; round < 4; round++) {
    shared[0] = shared[1] = shared[2] = 0;
    pid_t child = fork();
    if (child == 0) {
      // What it sees of the others' memory is in its sum; now and then it makes a call that need not stop.
      long sum = 0;
      for (long n = 1; !shared[2]; n++) {
        shared[0] = n;
        sum = sum * 31 + shared[1] + (shared[0] == n);
        if (n % 1000 == 0 && round % 2) sum += getppid() > 0;
      }
      shared[3] = sum;
      _exit(0);
    }
    pid_t other = stopper(child, shared);
    int status;
    for (int i = 0; i < 200 && waitpid(other, &status, WNOHANG) == 0; i++) {
      shared[1]++;
      sleep_ms(1);
    }
    if (!WIFEXITED(status)) check_exited(other, 0);
    shared[2] = 1;
    check_exited(child, 0);
    printf("%ld %ld\n", shared[0], shared[3]);
  }
  return guest_ok();
}
