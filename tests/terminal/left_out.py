"""A program that is left out of the recording of an interactive shell: it reads from the terminal, is interrupted, stopped and continued
by its keys, and is told of a new window size, as if it was recorded."""
from desk import *

with open(f"{folder}/left", "w") as file:
    file.write("""#!/bin/bash
trap 'echo got-int' INT
echo go
read line; echo "read $line"
while read line; do [ $line = end ] && exit 5; stty size; done
""")
os.chmod(f"{folder}/left", 0o755)
command, trace = recorded(["bash", "--norc", "--noprofile", "-i"])
command[2:2] = ["--detach=left"]
desk = Desk(command)
desk.expect("% ")
desk.line(f"{folder}/left")
desk.expect("\ngo")
desk.line("a line")
desk.expect("read a line")
desk.type("\x03")
desk.expect("got-int")
desk.type("\x1a")
desk.expect("Stopped")
desk.line("jobs; echo now$((1))")
desk.expect("now1")
desk.line("fg")
desk.expect("/left\r\n")
desk.resize(31, 91)
desk.line("size")
desk.expect("31 91")
desk.line("end")
desk.expect("% ")
desk.line("echo st$((0))=$?; exit 7")
desk.expect("st0=5")
same(desk.end(), 7)
same(desk.seen.count(b"got-int"), 1)
shown = replay(trace)
for part in [b"Stopped", b"now1", b"st0=5"]:
    same(part in shown, True)
same(b"31 91" in shown, False)
done()
