#!/bin/bash
# memcached with four threads, and clients outside.
# needs: memcached python3
# record
exec memcached -u root -s "$PWD/socket" -t 4
# drive
cat > client.py <<'END'
import socket, sys, time
for _ in range(200):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect("socket"); break
    except OSError: time.sleep(0.05)
f = s.makefile("rwb")
for i in range(300):
    f.write(b"set k%d 0 0 5\r\nv%04d\r\nget k%d\r\n" % (i, i, i)); f.flush()
    assert f.readline() == b"STORED\r\n"
    assert [f.readline() for _ in range(3)] == [b"VALUE k%d 0 5\r\n" % i, b"v%04d\r\n" % i, b"END\r\n"]
f.write(b"stats\r\n"); f.flush()
for line in f:
    if line.startswith(b"STAT pid"): pid = int(line.split()[2])
    if line == b"END\r\n": break
import os, signal
os.kill(pid, signal.SIGINT)
END
python3 client.py
# check
test -s client.py
