#!/usr/bin/python3
# What differs from run to run in a script: hash seeds, object ids, time, pids, temporary names. All of it is printed.
import os, random, sys, tempfile, time, uuid

print(hash("a string"), id(object()), os.getpid(), time.time_ns(), time.perf_counter_ns())
print({c for c in "abcdefgh"}, random.random(), uuid.uuid4(), os.urandom(8).hex())
with tempfile.NamedTemporaryFile(dir=".") as f:
    f.write(b"x" * 100000)
    f.flush()
    print(f.name, os.stat(f.name).st_ino)
print(sys.version, file=sys.stderr)
print("guest ok")
