#!/bin/bash
# GNU sort of 20 MB with two threads.
# needs: sort
# setup
seq 1 2000000 | awk '{ printf "%09d\n", ($1 * 7919) % 1000000007 }' > numbers
test "$(stat -c %s numbers)" -ge 20000000
# record
exec sort --parallel=2 -S 30M -o sorted numbers
# check
sort -c sorted
cmp sorted <(sort numbers)
