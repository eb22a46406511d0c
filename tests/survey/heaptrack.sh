#!/bin/bash
# heaptrack records the allocations of a program with three threads by a library of its own, through a pipe, and prints
# what has leaked.
# needs: heaptrack heaptrack_print gcc
# setup
cat > a.c <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *work(void *arg) {
  for (int i = 0; i < 2000; i++) {
    char *p = malloc(i % 100 + 1);
    memset(p, i, i % 100 + 1);
    if (i % 7) free(p);
  }
  return arg;
}
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(threads + i, NULL, work, NULL);
  work(NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 5;
}
C
gcc -g -O0 -pthread -o a a.c
# record
rm -f heap.*
heaptrack -o heap ./a > said.txt
heaptrack_print heap.* | grep -E '^(total memory leaked|calls to allocation functions):' | sed 's: (.*::'
# check
grep -q 'calls to allocation functions: 6[0-9][0-9][0-9]' "$OUT"
grep -q 'total memory leaked: 44' "$OUT"
