#!/usr/bin/python3
# An interactive bash in a terminal of its own: a job is stopped by ^Z, listed, continued in the background and waited for.
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


def through_cat(first, second):
    # The first word may come while the shell still has the terminal in its own mode, without echo; once it is
    # seen, the terminal echoes. So the second is seen twice: as echo, and from cat, which has the terminal then.
    say(first + b"\n")
    until(first + rb"\r\n")
    say(second + b"\n")
    until(second + rb"\r\n(.|\r\n)*" + second + rb"\r\n")


until(rb"ready> ")
say(b"cat\n")
until(rb"cat\r\n")
through_cat(b"one", b"two")
say(b"\x1a")
until(rb"Stopped")
until(rb"ready> ")
say(b"jobs -l\n")
job = until(rb"\[1\]\+ +(\d+) Stopped")
print("the job was", job.group(1).decode())
say(b"fg\n")
until(rb"cat\r\n")
through_cat(b"three", b"four")
say(b"\x04")
until(rb"ready> ")
say(b"sleep 0.05 & wait; echo waited $((40 + 2))\n")
until(rb"waited 42\r\n")
say(b"exit 7\n")
status = os.waitpid(pid, 0)[1]
assert os.WEXITSTATUS(status) == 7, status
print("guest ok")
