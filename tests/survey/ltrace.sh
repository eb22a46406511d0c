#!/bin/bash
# ltrace puts breakpoints on the library functions that a program calls: on ls, and on a shell with its children.
# needs: ltrace
# varies: addresses
# record
ltrace -o ls.txt ls / || exit 1
ltrace -f -o shell.txt sh -c 'ls / | wc -l'
# check
grep -q '^setlocale(LC_ALL, "")' ls.txt
grep -q '^+++ exited (status 0) +++' ls.txt
test "$(grep -c 'exited (status 0)' shell.txt)" = 3
grep -q 'setlocale(' shell.txt
