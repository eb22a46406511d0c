#!/usr/bin/python3
# python threads with queues, locks, events, timers, and a pool of executors.
import concurrent.futures, queue, threading, time

q, out = queue.Queue(maxsize=5), []
lock, start = threading.Lock(), threading.Event()


def consume():
    start.wait()
    while (item := q.get()) is not None:
        with lock:
            out.append((item, threading.get_native_id()))


workers = [threading.Thread(target=consume) for _ in range(4)]
for w in workers:
    w.start()
start.set()
for i in range(60):
    q.put(i)
for _ in workers:
    q.put(None)
for w in workers:
    w.join()
assert sorted(i for i, _ in out) == list(range(60))
fired = threading.Event()
threading.Timer(0.01, fired.set).start()
assert fired.wait(5)
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    assert sum(pool.map(lambda x: (time.sleep(0.0005), x)[1], range(15))) == 105
print(len({tid for _, tid in out}), "threads took items, the last was", out[-1])
print("guest ok")
