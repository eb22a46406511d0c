#!/bin/bash
# cp -a of a tree with links, modes and times; the copy is the same.
# setup
mkdir tree && cp -a /usr/include/linux tree/ && ln -s linux/fs.h tree/link && ln tree/linux/fs.h tree/hard
mkfifo tree/fifo && chmod 600 tree/hard && mkdir -m 700 tree/private
# record
exec cp -av tree copy
# check
diff -r --no-dereference -x fifo tree copy
cmp <(cd tree && find . -printf '%p %m %s %y %l %TY%Tm%Td%TH%TM%TS\n' | grep -v ' d ' | sort) <(cd copy && find . -printf '%p %m %s %y %l %TY%Tm%Td%TH%TM%TS\n' | grep -v ' d ' | sort)
test "$(wc -l < "$OUT")" -gt 300
