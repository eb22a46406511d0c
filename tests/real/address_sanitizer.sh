#!/bin/bash
# AddressSanitizer reserves 20 TB, of which little is used: threads that wait for each other in a loop, and
# that compute, are recorded without page tables for all of it.
# needs: gcc
# setup
cat > plain.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { ROUNDS = 20, TURNS = 20, INTS = 20000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int turn;
static long total;
static void *work(void *arg) {
  for (int i = 0; i < ROUNDS; i++) {
    long sum = 0;
    int *ints = malloc(INTS * sizeof *ints);
    for (int k = 0; k < 5; k++) for (int at = 0; at < INTS; at++) ints[at] = at * k ^ i;
    for (int at = 0; at < INTS; at++) sum += ints[at];
    free(ints);
    pthread_mutex_lock(&lock);
    total += sum & 255;
    pthread_mutex_unlock(&lock);
  }
  for (int i = 0; arg && i < TURNS; i++) {
    while (turn != 1);
    turn = 0;
  }
  return NULL;
}
int main(void) {
  pthread_t threads[3];
  for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, i == 0 ? &total : NULL);
  for (int i = 0; i < TURNS; i++) {
    turn = 1;
    while (turn != 0);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  printf("%ld\n", total);
  char line[200];
  long kb = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status)) sscanf(line, "VmPTE: %ld kB", &kb);
  fclose(status);
  puts(kb > 0 && kb < 100 << 10 ? "few page tables" : "many page tables");
  return 0;
}
C
gcc -g -O1 -fsanitize=address -o plain plain.c -lpthread
# record
./plain
# check
grep -q '^few page tables$' "$OUT"
