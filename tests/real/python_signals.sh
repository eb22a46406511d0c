#!/bin/bash
# python: interval timers, alarms, handlers that raise, children that are stopped, continued and killed.
# needs: python3
# setup
cat > script.py <<'SCRIPT'
import os, signal, subprocess, threading, time
count = 0
def tick(s, f):
    global count
    count += 1
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
end = time.monotonic() + 0.3
x = 0
while time.monotonic() < end or count < 10:
    x += sum(i * i for i in range(200))
signal.setitimer(signal.ITIMER_REAL, 0)
print("ticks", count, "x", x)
class Late(Exception): pass
def late(s, f): raise Late()
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.01)
try:
    time.sleep(10)
except Late:
    print("late")
p = subprocess.Popen(["sleep", "100"])
os.kill(p.pid, signal.SIGSTOP)
print(os.WIFSTOPPED(os.waitpid(p.pid, os.WUNTRACED)[1]))
os.kill(p.pid, signal.SIGCONT); p.terminate(); print(p.wait())
hits = []
signal.signal(signal.SIGUSR1, lambda s, f: hits.append(time.time()))
t = threading.Thread(target=lambda: [os.kill(os.getpid(), signal.SIGUSR1) or time.sleep(0.001) for _ in range(20)])
t.start(); t.join(); time.sleep(0.01)
print(len(hits) > 0, hits)
print("finished")
SCRIPT
# record
exec /usr/bin/python3 script.py
# check
grep -q finished "$OUT" && grep -q '^late$' "$OUT" && grep -q '^-15$' "$OUT"
