#!/usr/bin/python3
# An interactive bash in a terminal of its own: a job is stopped by ^Z, listed, killed, another continued and waited for.
import os, pty, re, select, sys, time

pid, fd = pty.fork()
if pid == 0:
    os.environ["PS1"] = "ready> "
    os.execv("/bin/bash", ["bash", "--norc", "--noprofile", "-i"])

seen = b""


def until(pattern):
    global seen
    end = time.monotonic() + 20
    while not re.search(pattern, seen):
        if time.monotonic() > end:
            print("waited in vain for", pattern, "in", seen, file=sys.stderr)
            sys.exit(1)
        if select.select([fd], [], [], 0.5)[0]:
            seen += os.read(fd, 4096)
    found = re.search(pattern, seen)
    seen = seen[found.end():]
    return found


def say(text):
    os.write(fd, text)


until(rb"ready> ")
# What the program prints itself proves that it runs and has the terminal; only then is ^Z meant for it.
say(b"sh -c 'echo ru\"\"nning; exec sleep 100'\n")
until(rb"running\r\n")
say(b"\x1a")
until(rb"Stopped")
until(rb"ready> ")
say(b"jobs -l\n")
job = until(rb"\[1\]\+ +(\d+) Stopped")
print("the job was", job.group(1).decode())
say(b"kill -KILL %1; while kill -0 %1 2>/dev/null; do sleep 0.01; done; echo go\"\"ne\n")
until(rb"gone\r\n")
say(b"sh -c 'kill -STOP $$; exit 5'\n")
until(rb"Stopped")
until(rb"ready> ")
say(b"fg; echo status $(($? + 0))\n")
until(rb"status 5\r\n")
say(b"sleep 0.05 & wait; echo waited $((40 + 2))\n")
until(rb"waited 42\r\n")
say(b"exit 7\n")
status = os.waitpid(pid, 0)[1]
assert os.WEXITSTATUS(status) == 7, status
print("guest ok")
