#!/bin/bash
# rsync copies a tree through a pipe to itself, twice.
# needs: rsync
# setup
mkdir -p from/sub && for i in $(seq 50); do seq $((i * 50)) > from/sub/$i; done
# record
rsync -a from/ to/ && echo more >> from/sub/7 && rsync -a --checksum --itemize-changes --no-times --no-whole-file from/ to/ && diff -r from to && echo same
# check
grep -q '^same$' "$OUT"
