#!/bin/bash
# python: threads, subprocesses, multiprocessing with shared memory.
# needs: python3
# setup
cat > script.py <<'SCRIPT'
import concurrent.futures, multiprocessing as mp, os, subprocess, threading, time
from multiprocessing import shared_memory

def work(n):
    s = 0
    for i in range(20000): s += i * n
    return s

def fill(name, at, lock, order):
    block = shared_memory.SharedMemory(name=name)
    for i in range(50):
        with lock:
            block.buf[at * 50 + i] = at + 1
            order.append(at)
    block.close()

if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print(sum(pool.map(work, range(20))))
    print(subprocess.run(["sh", "-c", "echo $$; exit 3"], capture_output=True, text=True))
    p = subprocess.Popen(["sort"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(p.communicate("b\na\nc\n"))
    mp.set_start_method("fork")
    block = shared_memory.SharedMemory(create=True, size=200)
    lock = mp.Lock()
    with mp.Manager() as manager:
        order = manager.list()
        ps = [mp.Process(target=fill, args=(block.name, k, lock, order)) for k in range(4)]
        for p in ps: p.start()
        for p in ps: p.join(); assert p.exitcode == 0
        print(len(order), list(order))
    assert bytes(block.buf[:200]) == b"".join(bytes([k + 1]) * 50 for k in range(4))
    block.close(); block.unlink()
    with mp.Pool(3) as pool:
        print(pool.map(work, range(12)))
    print("finished", os.getpid(), time.time())
SCRIPT
# record
exec /usr/bin/python3 script.py
# check
grep -q finished "$OUT"
