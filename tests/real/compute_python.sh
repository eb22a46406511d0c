#!/bin/bash
# python: threads that only compute; the interpreter hands its lock from one to the next by time.
# needs: python3
# setup
cat > script.py <<'SCRIPT'
import sys, threading
sys.setswitchinterval(0.001)
results = [0] * 4
order = []
def work(number):
    total = 0
    for k in range(200000):
        total += k * k % 7
        if k % 10000 == 0:
            order.append(number)
    results[number] = total
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(results, order)
print("finished")
SCRIPT
# record
exec /usr/bin/python3 script.py
# check
grep -q finished "$OUT"
