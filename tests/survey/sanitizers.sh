#!/bin/bash
# Programs with the address, thread and undefined-behaviour sanitizers.
# needs: gcc
# limit: 240
# stderr varies: the sanitizers print process ids
# setup
cat > a.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
int shared;
static void *add(void *x) { for (int i = 0; i < 1000; i++) shared++; return x; }
int main(int argc, char **argv) {
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, add, 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  int n = 2147483647; n += argc; printf("%d\n", n > 0);
  char *p = malloc(8); if (argc > 1) { free(p); return p[1]; }
  free(p); return 0;
}
END
for s in address thread undefined; do gcc -g -fsanitize=$s -o $s a.c -lpthread; done
# record
./address; echo $?; ./address x; echo $?; ./thread; echo $?; ./undefined; echo $?
# check
grep -q 'heap-use-after-free' "$ERR" && grep -q 'data race' "$ERR" && grep -q 'signed integer overflow' "$ERR"
