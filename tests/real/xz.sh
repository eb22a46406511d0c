#!/bin/bash
# xz with two threads on 20 MB, and back.
# needs: xz
# limit: 300
# setup
seq 1 2600000 | head -c 20000000 > data
cp data original
# record
xz -T2 -1 --block-size=4MiB -v data && xz -dc -T2 data.xz > back
# check
cmp original back
test "$(stat -c %s data.xz)" -lt 10000000
