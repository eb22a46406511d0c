"""Signals that come to bis are meant for the program: ^C and ^Z at the terminal, and what others send to bis itself.
What the program has left running does not keep bis from being ended."""
from desk import *
import shlex, signal

# ^C of the program: status 128 + SIGINT, and a whole trace.
command, trace = recorded(["sh", "-c", "echo go; exec sleep 100"])
desk = Desk(command)
desk.expect("go")
desk.type("\x03")
same(desk.end(), 130)
same(replay(trace), b"go\n")

# Sent to bis alone.
for number in [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]:
    command, trace = recorded(["sh", "-c", "echo go; exec sleep 100"])
    desk = Desk(command)
    desk.expect("go")
    os.kill(desk.pid, number)
    same(desk.end(), 128 + number)
    replay(trace)
    command, trace = recorded(["bash", "-c", "trap 'echo got; exit 3' TERM HUP INT; echo go; while :; do sleep 0.05; done"])
    desk = Desk(command)
    desk.expect("go")
    os.kill(desk.pid, number)
    same(desk.end(), 3)
    same(replay(trace), b"go\ngot\n")

# A program that signals its whole group, which is ours too, gets that once.
command, trace = recorded(["bash", "-c", "trap 'echo got' TERM; kill 0; sleep 0.3; exit 4"])
desk = Desk(command)
same(desk.end(), 4)
same(replay(trace), b"got\n")

# A signal that we were started to ignore is ignored by the program.
command, trace = recorded(["grep", "SigIgn", "/proc/self/status"])
ignoring = ["bash", "-c", "trap '' HUP; exec \"$@\"", "bash", *command]
same(int(subprocess.run(ignoring, capture_output=True).stdout.split()[1], 16) & 1, 1)

# ^Z in an interactive shell, which must see bis stop; fg goes on with both.
command, trace = recorded(["sh", "-c", "echo go; exec cat"])
desk = Desk(["bash", "--norc", "--noprofile", "-i"])
desk.expect("% ")
desk.line(shlex.join(command))
desk.expect("\ngo")
desk.line("one")
desk.expect("one\r\none")
desk.type("\x1a")
desk.expect("Stopped")
desk.line("echo st$((0))=$?")
desk.expect("st0=148")
desk.line("fg")
time.sleep(0.3)
desk.line("two")
desk.expect("two\r\ntwo")
desk.type("\x04")
desk.expect("% ")
desk.line("exit 5")
same(desk.end(), 5)
same(replay(trace), b"go\none\ntwo\n")

# The program has ended, a process of it has not: ^C ends the recording, with the program's status.
command, trace = recorded(["bash", "-c", "(trap '' INT HUP; exec sleep 300) & echo go; exit 6"])
desk = Desk(command)
desk.expect("go")
time.sleep(1.5)
desk.type("\x03")
same(desk.end(), 6)
done()
