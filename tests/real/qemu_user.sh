#!/bin/bash
# qemu-user reads the text of its program as data and runs a translation of it.
# needs: qemu-x86_64
# limit: 300
# record
for word in one two three; do qemu-x86_64 /bin/echo "$word"; done; qemu-x86_64 /bin/sh -c 'echo $$ >pid; exec cat pid'
# check
test "$(head -3 "$OUT" | tr '\n' ' ')" = "one two three " && test "$(tail -1 "$OUT")" = "$(cat pid)"
