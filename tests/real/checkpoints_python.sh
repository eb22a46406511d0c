#!/bin/bash
# Python keeps itself and goes back, by the bindings: objects, threads of the interpreter's, its own allocator.
# needs: python3
# setup
ln -s "$TREE/bindings/python" bindings
cat > tries.py << 'END'
import sys, threading, queue
sys.path.insert(0, sys.argv[1])
import bis

asked, answered = queue.Queue(), queue.Queue()
def serve():
    while (n := asked.get()) is not None:
        answered.put(n * n)
server = threading.Thread(target=serve)
server.start()

things = {"begin": list(range(1000))}
try:
    before = bis.checkpoint()
except OSError as error:
    print("without bis:", error)
    before = None
times = before.times if before else 3
assert list(things) == ["begin"], things
for n in range(5):
    asked.put(n + times)
    things[n] = answered.get()
print(times, {key: things[key] for key in range(5)}, flush=True)
if before and times < 3:
    assert before.how == (bis.RETRY if times else 0)
    before.rollback()
if before:
    before.discard()
    try:
        before.rollback()
    except OSError as error:
        print(error)
asked.put(None)
server.join()
print("done")
END
# record
exec python3 tries.py bindings
# check
grep -q '^done' "$OUT" && grep -q '^3 {0: 9, 1: 16, 2: 25, 3: 36, 4: 49}' "$OUT"
