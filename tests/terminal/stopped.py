"""Two threads write to a terminal that its user stops by ^S, again and again: the process's other thread goes on meanwhile, and the
lines of the two stand in the replay in the order in which they were seen."""
from desk import *

PROGRAM = """
import os, threading
def lines(name):
    for i in range(150):
        os.write(1, b"%s line %d\\n" % (name, i))
threads = [threading.Thread(target=lines, args=(name,)) for name in (b"a", b"b")]
for thread in threads: thread.start()
with open("ticks", "wb", buffering=0) as ticks:
    while not os.path.exists("end"): ticks.write(b"x")
for thread in threads: thread.join()
"""


def ticks():
    try:
        return os.stat("ticks").st_size
    except FileNotFoundError:
        return 0


os.chdir(folder)
for flags in [[], ["-n"]]:
    for name in ["ticks", "end"]:
        if os.path.exists(name):
            os.unlink(name)
    command, trace = recorded(["python3", "-c", PROGRAM])
    command[2:2] = flags
    desk = Desk(command)
    for _ in range(10):
        desk.type("\x13")
        limit, before = time.time() + LIMIT_S, ticks()
        # A thread that waits for the terminal keeps nobody else waiting.
        while ticks() < before + 10:
            if time.time() > limit:
                sys.exit(f"all threads wait for the terminal; {before} ticks")
            time.sleep(0.01)
        desk.type("\x11")
        desk.take(0.02)
    open("end", "w").close()
    same(desk.end(), 0)
    seen = [line.strip() for line in desk.seen.split(b"\n") if b" line " in line]
    same(len(seen), 300)
    same([line for line in replay(trace).split(b"\n") if b" line " in line], seen)
done()
