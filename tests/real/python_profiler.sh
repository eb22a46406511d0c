#!/bin/bash
# python in computation under a profiler's timer: SIGPROF a thousand times a second, with a handler in the interpreter.
# needs: python3
# setup
cat > script.py <<'SCRIPT'
import signal, time
samples = {}
def sample(number, frame):
    samples[frame.f_lineno] = samples.get(frame.f_lineno, 0) + 1
signal.signal(signal.SIGPROF, sample)
signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
total = 0
until = time.process_time() + 0.3
while time.process_time() < until or sum(samples.values()) < 20:
    for k in range(1000):
        total += k * k % 7
signal.setitimer(signal.ITIMER_PROF, 0)
print(total, sorted(samples.items()))
print("finished")
SCRIPT
# record
exec /usr/bin/python3 script.py
# check
grep -q finished "$OUT"
