#!/bin/bash
# valgrind reads the text of its program as data and runs a translation of it: it must see the program's own.
# needs: valgrind gcc
# limit: 300
# setup
cat > wrong.c << 'END'
#include <pthread.h>
#include <stdlib.h>
int shared;
static void *add(void *arg) {
  for (int i = 0; i < 100; i++) shared++;
  return arg;
}
int main(void) {
  int *some = malloc(10 * sizeof *some);
  some[10] = 3;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, add, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
END
gcc -g -pthread -o wrong wrong.c
# record
valgrind --error-exitcode=9 /bin/sh -c 'for word in one two three; do echo "$word"; done' &&
  valgrind --tool=cachegrind --cachegrind-out-file=out /bin/true
valgrind ./wrong
valgrind --tool=helgrind ./wrong
# check
test -s out
grep -q 'Invalid write of size 4' "$ERR" && grep -q 'definitely lost: 40 bytes' "$ERR" && grep -q 'Possible data race' "$ERR"
