#!/bin/bash
# strace follows a shell with pipes and a python with threads and children, changes a call's result, has a filter ask it,
# and attaches to a process that sleeps; gdb runs a program to its crash, and another one from breakpoint to breakpoint:
# both trace what they look at.
# needs: strace gdb gcc python3
# setup
cat > crash.c <<'C'
#include <stdio.h>
#include <stdlib.h>
static int depth(int n, char *p) {
  if (n == 0) {
    *p = 1;
    return 0;
  }
  return depth(n - 1, p) + 1;
}
int main(int argc, char **argv) {
  (void)argv;
  printf("begin %d\n", argc);
  fflush(stdout);
  int sum = depth(3, argc > 1 ? malloc(3) : NULL);
  printf("sum %d\n", sum);
  return sum;
}
C
gcc -g -O0 -o crash crash.c
# record
strace -f -o shell.txt sh -c 'ls / | wc -l' || exit 1
strace -f -o threads.txt python3 -c '
import subprocess, threading
threads = [threading.Thread(target=lambda: subprocess.run(["true"])) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("joined")'
strace -e trace=getppid -e inject=getppid:retval=4711 -o inject.txt python3 -c 'import os; print(os.getppid())'
strace --seccomp-bpf -f -e trace=getppid -o filtered.txt python3 -c 'import os; print(os.getppid() > 0)'
sleep 60 &
sleeps=$!
until grep -q '(sleep) S' /proc/$sleeps/stat; do sleep 0.1; done
strace -o attached.txt -p $sleeps 2> attach.err &
tracer=$!
until grep -q attached attach.err; do sleep 0.1; done
kill $sleeps
wait $sleeps $tracer
gdb -q -nx -batch -ex run -ex bt ./crash 2>&1
gdb -q -nx -batch -ex 'break depth' -ex run -ex 'p n' -ex 'set var n=1' -ex 'p n' -ex c -ex 'p (int) abs(-5)' \
  -ex delete -ex stepi -ex c --args ./crash x 2>&1
exit 0
# check
grep -q 'execve("/.*bin/ls"' shell.txt
test "$(grep -c 'exited with 0' shell.txt)" = 3
test "$(grep -c 'exited with 0' threads.txt)" -ge 7
grep -q 'getppid() *= 4711 (INJECTED)' inject.txt
grep -q '^joined$' "$OUT"
grep -q '^True$' "$OUT"
grep -q 'getppid() *= [0-9]' filtered.txt
grep -q 'nanosleep' attached.txt || grep -q 'restart_syscall' attached.txt
grep -q '+++ killed by SIGTERM +++' attached.txt
grep -q '^4711$' "$OUT"
grep -q '^#4 .* in main (argc=1,' "$OUT"
grep -q '^\$1 = 3$' "$OUT"
grep -q '^\$2 = 1$' "$OUT"
# Where a processor has matrix registers, gdb 13 cannot call functions without bis.
grep -q '^\$3 = 5$' "$OUT" || { grep -q amx_tile /proc/cpuinfo && grep -q '^Couldn.t write extended state status' "$OUT"; }
grep -q '^sum 1$' "$OUT"
