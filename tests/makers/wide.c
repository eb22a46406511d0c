// Two threads that compute at the same time, in a program with much text: its dense text is made in the
// background. The program has no child but its own, and its group is what it was.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// Nobody comes here.
__asm__(".text\n.globl wide\n.type wide, @function\nwide: .fill 6 << 20, 1, 0x90\nret\n.size wide, . - wide\n");

static char page[4096] __attribute__((aligned(4096)));

__attribute__((noinline)) static unsigned long mix(unsigned long value) {
  value ^= value >> 12;
  value ^= value << 25;
  return value ^ (value >> 27);
}

static void *compute(void *seed) {
  unsigned long value = (unsigned long)seed;
  for (long i = 0; i < 150 * 1000 * 1000; i++) {
    // A loop that is not short: it counts.
    value = mix(value) + (unsigned long)i;
    if (value % 1000003 == 0) value += 17;
    // The text is changed at a call that no hook makes. Between two of them there is more than a turn, also where an iteration
    // takes 3 ns: at a call, the turn goes to the other thread without a pause.
    if (i % (32 << 20) == 0) madvise(page, sizeof page, MADV_NORMAL);
  }
  return (void *)value;
}

int main(void) {
  pid_t group = getpgid(0);
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, compute, (void *)(i + 1));
  unsigned long sum = 0;
  for (int i = 0; i < 2; i++) {
    void *value;
    pthread_join(threads[i], &value);
    sum += (unsigned long)value;
  }
  if (waitpid(-1, 0, WNOHANG) != -1 || errno != ECHILD || getpgid(0) != group) abort();
  printf("%lx\n", sum);
  return 0;
}
