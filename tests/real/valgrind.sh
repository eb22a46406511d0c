#!/bin/bash
# valgrind reads the text of its program as data and runs a translation of it: it must see the program's own.
# needs: valgrind
# limit: 300
# record
valgrind --error-exitcode=9 /bin/sh -c 'for word in one two three; do echo "$word"; done' &&
  valgrind --tool=cachegrind --cachegrind-out-file=out /bin/true
# check
test -s out
