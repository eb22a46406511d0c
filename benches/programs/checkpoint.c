// What a checkpoint costs, beside a plain fork, as in Figure 4 of the Flashback paper: a process with TOTAL KiB of memory changes
// one byte of each page of CHANGED KiB of it.
// usage: checkpoint TOTAL CHANGED ROUNDS
// Prints, in microseconds, a line for each round: fork, the writes beside it, the end of the forked child; checkpoint, the writes
// beside it, discard; and a rollback after the same writes.
#include "../../include/bis.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static double changes(char *memory, size_t len, int round) {
  double begun = now();
  for (size_t at = 0; at < len; at += 4096) memory[at] += round + 1;
  return now() - begun;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  size_t total = (size_t)atol(argv[1]) << 10, changed = (size_t)atol(argv[2]) << 10;
  int rounds = atoi(argv[3]);
  char *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // When a way back was asked for: a way back does not take back what a pipe holds.
  int passage[2];
  double asked;
  if (memory == MAP_FAILED || pipe(passage) != 0) return 1;
  // Huge pages would be copied as one.
  madvise(memory, total, MADV_NOHUGEPAGE);
  for (size_t at = 0; at < total; at += 4096) memset(memory + at, (int)(at >> 12), 4096);
  for (int round = 0; round < rounds; round++) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0) return 1;
    double begun = now();
    pid_t child = fork();
    if (child == 0) {
      close(ends[1]);
      while (read(ends[0], &byte, 1) > 0) {
      }
      _exit(0);
    }
    double forked = now() - begun;
    close(ends[0]);
    double beside_fork = changes(memory, changed, round);
    begun = now();
    close(ends[1]);
    waitpid(child, NULL, 0);
    double ended = now() - begun;

    bis_handle handle;
    begun = now();
    int result = bis_checkpoint(&handle);
    double kept = now() - begun;
    if (result < 0) {
      fprintf(stderr, "no checkpoint: %s\n", strerror(-result));
      return 1;
    }
    double beside_checkpoint = changes(memory, changed, round);
    begun = now();
    bis_discard(handle);
    double discarded = now() - begun;

    double back = 0;
    result = bis_checkpoint(&handle);
    if (result == 0) {
      changes(memory, changed, round);
      asked = now();
      if (write(passage[1], &asked, sizeof asked) != sizeof asked) return 1;
      bis_rollback(handle, BIS_RETRY);
      return 1;
    }
    double over = now();
    if (read(passage[0], &asked, sizeof asked) != sizeof asked) return 1;
    back = over - asked;
    bis_discard(handle);
    printf("%.0f %.0f %.0f %.0f %.0f %.0f %.0f\n", forked, beside_fork, ended, kept, beside_checkpoint, discarded, back);
  }
  return 0;
}
