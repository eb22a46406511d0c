#!/bin/bash
# PyPy: a tracing compiler at run time, threads, a fork.
# needs: pypy3
# limit: 240
# setup
cat > a.py <<'END'
import os, threading, subprocess
r = []
def f(n):
    s = 0
    for i in range(300000): s = (s * 31 + i) % 1000003
    r.append((n, s))
ts = [threading.Thread(target=f, args=(i,)) for i in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sorted(r)); print(subprocess.check_output(["echo", "sub"]))
if os.fork() == 0: os._exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
END
# record
pypy3 a.py
# check
tail -1 "$OUT" | grep -q '^3$'
