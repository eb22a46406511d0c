#!/bin/bash
# What looks at a process that waits with two threads: eu-stack, gcore and its file in gdb and eu-stack, gdb that attaches,
# lsof, and strace on all of its threads.
# needs: eu-stack gcore gdb lsof strace gcc
# setup
cat > a.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *waits(void *arg) {
  pause();
  return arg;
}
int inner(void) { return pause(); }
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(threads + i, NULL, waits, NULL);
  puts("ready");
  fflush(stdout);
  return inner();
}
C
gcc -g -O0 -pthread -o a a.c
# record
./a > ready &
looked=$!
until grep -qs ready ready && test "$(cat /proc/$looked/task/*/stat | grep -c ' S ')" = 3; do sleep 0.1; done
eu-stack -p $looked | sed 's/0x[0-9a-f]*/ADDRESS/; s/TID [0-9]*/TID/; s/PID [0-9]*/PID/'
gcore -o core $looked > gcore.txt 2>&1
gdb -q -nx -batch -ex 'thread apply all bt' ./a core.$looked > core.txt 2>&1
eu-stack --core core.$looked > stack.txt
gdb -q -nx -batch -p $looked -ex 'thread apply all bt' > attached.txt 2>&1
lsof -p $looked | awk '$4 != "2w" { print $1, $4, $5 }'
strace -f -p $looked -o strace.txt 2> strace.err &
tracer=$!
until grep -q 'attached with 3 threads' strace.err; do sleep 0.1; done
# The shell says at some time that it was ended.
exec 2> /dev/null
kill $looked
wait $looked $tracer
rm -f core.[0-9]*
exit 0
# check
grep -q 'ADDRESS inner' "$OUT"
test "$(grep -c 'ADDRESS start_thread' "$OUT")" = 2
test "$(grep -c ' in inner () at a.c:8' core.txt)" = 1
grep -q ' inner$' stack.txt
test "$(grep -c ' in waits ' attached.txt)" = 2
test "$(grep -c 'killed by SIGTERM' strace.txt)" = 3
