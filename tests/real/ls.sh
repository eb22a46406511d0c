#!/bin/bash
# ls over a large tree: directories, stat, names, time zones, sorting.
# record
exec ls -lR /usr/include
# check
test "$(wc -l < "$OUT")" -gt 1000
cmp "$OUT" <(ls -lR /usr/include)
test ! -s "$ERR"
