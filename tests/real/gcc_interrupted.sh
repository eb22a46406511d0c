#!/bin/bash
# gcc that is interrupted in the middle of its work, after four different times.
# needs: gcc timeout
# setup
for k in $(seq 1 400); do
  echo "int f$k(int *a, int n) { int s = $k; for (int i = 0; i < n; i++) { s += a[i] * $k; if (s & $k) a[i] ^= s; } return s; }"
done > long.c
# record
for t in 0.1 0.3 0.5 0.7; do timeout -s INT $t gcc -O2 -c long.c -o long.o; echo "after $t: $?"; done; echo finished
# check
grep -q finished "$OUT"
grep -q 'after 0.1: 124' "$OUT"
