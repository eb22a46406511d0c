#!/usr/bin/python3
# forty threads that sleep and wake all the time: each of them must get its turns, however few the cores.
# unsummed: forty threads of python make some ten thousand events, at several milliseconds each with checksums
# calm: forty threads that take the interpreter lock from each other, one held after the other, need a minute
import threading, time

seen = set()


def work():
    me = threading.current_thread()
    while True:
        with open("/dev/null", "wb") as f:
            f.write(b"x" * 100)
            time.sleep(0.0003)
        seen.add(me)


N = 40
for _ in range(N):
    threading.Thread(target=work, daemon=True).start()
while len(seen) < N:
    time.sleep(0.001)
print("all", N, "ran")
print("guest ok")
