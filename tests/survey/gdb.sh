#!/bin/bash
# gdb inside of a recording: breakpoints, steps, a backtrace, a changed variable.
# needs: gdb gcc
# limit: 240
# setup
printf 'int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nint main(void) { return f(6); }\n' > a.c && gcc -g -O0 -o a a.c
# record
gdb -nx -q -batch -ex 'break f if n == 1' -ex run -ex bt -ex 'set var n = 0' -ex step -ex 'delete' -ex continue ./a | sed 's/process [0-9]*/process N/'
# check
grep -q 'exited with code' "$OUT"
