#!/bin/bash
# LeakSanitizer looks for leaks at the end of a program with threads: a task that shares the program's memory traces
# all of its threads meanwhile.
# needs: gcc
# setup
cat > leak.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *keep(void *arg) {
  void **kept = malloc(16);
  *kept = malloc(4000);
  *(int *)arg = 1;
  for (;;) pause();
  return kept;
}
int main(void) {
  static int is_there;
  pthread_t thread;
  pthread_create(&thread, NULL, keep, &is_there);
  while (!*(volatile int *)&is_there) usleep(100);
  char *volatile lost = malloc(1234);
  lost = NULL;
  puts("about to end");
  return lost != NULL;
}
C
gcc -g -fsanitize=address -o leak leak.c -lpthread
# record
./leak
echo "status $?"
# check
grep -q '^status 1$' "$OUT"
grep -q 'Direct leak of 1234 byte(s)' "$ERR"
grep -q 'SUMMARY: AddressSanitizer: 1234 byte(s) leaked in 1 allocation(s).' "$ERR"
