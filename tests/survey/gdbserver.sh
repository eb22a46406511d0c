#!/bin/bash
# gdbserver and its gdb in one recording: a breakpoint, a backtrace, a changed variable, steps, and the end.
# needs: gdbserver gdb gcc
# setup
printf 'int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nint main(void) { return f(6); }\n' > a.c && gcc -g -O0 -o a a.c
# record
gdbserver --once localhost:0 ./a 2> server.txt &
until grep -q '^Listening on port' server.txt; do sleep 0.1; done
port=$(sed -n 's/^Listening on port //p' server.txt)
gdb -nx -q -batch -ex "target remote localhost:$port" -ex 'break f if n == 1' -ex continue -ex bt -ex 'set var n = 0' -ex step \
  -ex delete -ex continue ./a 2>&1 | sed "s/process [0-9]*/process N/; s/localhost:$port/PORT/"
wait
# check
grep -q 'f (n=1) at a.c:1' "$OUT"
grep -q 'in main () at a.c:2' "$OUT"
grep -q 'exited with code 07' "$OUT"
