#!/bin/bash
# gcc: preprocess, compile with optimization, assemble and link; the program runs.
# needs: gcc
# setup
cat > a.c <<'C'
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
double helper(int);
int main(void) { double s = 0; for (int i = 0; i < 1000; i++) s += helper(i); printf("%.6f\n", s); return 0; }
C
cat > b.c <<'C'
#include <math.h>
double helper(int n) { double r = 0; for (int i = 1; i <= n; i++) r += sin(i) / sqrt(i); return r; }
C
# record
exec gcc -v -O2 -g -Wall -o program a.c b.c -lm
# check
gcc -O2 -g -Wall -o native a.c b.c -lm
cmp <(./program) <(./native)
cmp <(objdump -d program | tail -n +4) <(objdump -d native | tail -n +4)
