#!/bin/bash
# A script that execs programs in a chain, by subshells, and one process after another.
set -e
x=$(exec sh -c 'exec env A=1 sh -c "echo \$A \$\$"')
set -- $x
[ "$1" = 1 ]
echo "inner pid $2, outer $$"
for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done
! /bin/false
y=$(printf '%s\n' c a b | sort | tr -d '\n')
[ "$y" = abc ]
( exit 7 ) || [ $? = 7 ]
exec sh -c 'exec echo guest ok'
