// The least that a way back in place can cost, without bis: a process of TOTAL KiB forks, changes one byte of each page of CHANGED
// KiB of its memory, and the changed pages are copied back from the child, whole, in the kernel, by as many processes as there are
// cores. Which pages those are is known for nothing here, nothing is compared, and nothing is told.
// usage: copied_back TOTAL CHANGED ROUNDS
// Prints, in microseconds, a line for each round: the changes, the copy by one process, the copy by all, the end of the child.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

// Memory of the same address in the process `to`, from this one's, in pieces of 1 MiB.
static void copy(pid_t to, char *from, size_t len) {
  for (size_t at = 0; at < len; at += 1 << 20) {
    size_t piece = len - at < 1 << 20 ? len - at : 1 << 20;
    struct iovec both = {from + at, piece};
    if (process_vm_writev(to, &both, 1, &both, 1, 0) != (ssize_t)piece) _exit(1);
  }
}

struct order { volatile int go, done; };

// The child of a round: when it is told so, it and a helper of its own copy the memory back.
static void serve(struct order *order, char *memory, size_t changed, int workers, pid_t parent) {
  for (int worker = 1; worker < workers; worker++) {
    if (fork() != 0) continue;
    while (order->go < 2) usleep(50);
    size_t share = changed / workers & ~4095ul, from = share * worker;
    copy(parent, memory + from, worker == workers - 1 ? changed - from : share);
    __atomic_fetch_add(&order->done, 1, __ATOMIC_SEQ_CST);
    _exit(0);
  }
  while (order->go < 1) usleep(50);
  copy(parent, memory, changed);
  __atomic_fetch_add(&order->done, 1, __ATOMIC_SEQ_CST);
  while (order->go < 2) usleep(50);
  copy(parent, memory, workers > 1 ? changed / workers & ~4095ul : changed);
  __atomic_fetch_add(&order->done, 1, __ATOMIC_SEQ_CST);
  while (wait(NULL) > 0) {}
  for (;;) pause();
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  size_t total = (size_t)atol(argv[1]) << 10, changed = (size_t)atol(argv[2]) << 10;
  int workers = (int)sysconf(_SC_NPROCESSORS_ONLN);
  char *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct order *order = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  madvise(memory, total, MADV_NOHUGEPAGE);
  memset(memory, 1, total);
  for (int round = 0; round < atoi(argv[3]); round++) {
    order->go = order->done = 0;
    pid_t parent = getpid(), child = fork();
    if (child == 0) serve(order, memory, changed, workers, parent);
    usleep(20000);
    double begun = now();
    for (size_t at = 0; at < changed; at += 4096) memory[at] += round + 1;
    double changes = now() - begun;
    begun = now();
    order->go = 1;
    while (order->done < 1) usleep(50);
    double one = now() - begun;
    for (size_t at = 0; at < changed; at += 4096) memory[at] += round + 1;
    begun = now();
    order->go = 2;
    while (order->done < 1 + workers) usleep(50);
    double all = now() - begun;
    for (size_t at = 0; at < changed; at += 4096) {
      if (memory[at] != 1) return 1;
    }
    usleep(20000);
    begun = now();
    kill(child, 9);
    waitpid(child, NULL, 0);
    printf("%.1f %.1f %.1f %.1f\n", changes, one, all, now() - begun);
  }
  return 0;
}
