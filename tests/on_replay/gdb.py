"""gdb at the terminal of a recording: its ^C is gdb's alone, ^Z does nothing, and the program goes on at the terminal when
gdb has ended."""
from common import *
import fcntl, pty, struct, termios

pid, terminal = pty.fork()
if pid == 0:
    # So that gdb shows no pages.
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 1000, 200, 0, 0))
    os.environ["TERM"] = "dumb"
    os.environ["HOME"] = folder
    os.execv(bis, [bis, "record", "-o", trace, "--on-replay=gdb", "--", program, "wait"])

shown = ""


def until(text):
    """Reads what the terminal shows, up to this text."""
    global shown
    while text not in shown:
        try:
            more = os.read(terminal, 4096).decode(errors="replace")
        except OSError:
            more = ""
        if not more:
            sys.exit(f"no {text!r} in {shown!r}")
        shown += more.replace("\r\n", "\n")
    before, shown = shown.split(text, 1)
    return before


def ask(command):
    os.write(terminal, command.encode() + b"\n")
    return until("(gdb) ")


for n in (0, 1):
    until(f"{n}: the sum is wrong\n")
    os.write(terminal, b"go\n")
    until("asks for a replay since its checkpoint")
    until("(gdb) ")
    wanted(os.tcgetpgrp(terminal) != pid, "gdb is not in front")
    ask("set confirm off")
    wanted("$1 = 0" in ask("print sum"), "the begin")
    ask("break add if step == 7")
    wanted("Breakpoint 1, add (step=" in ask("continue"), "the fault")
    os.write(terminal, b"\x03")
    until("Quit\n")
    until("(gdb) ")
    os.write(terminal, b"\x1a")
    wanted(f"$2 = {7 + n}" in ask("print value"), "after ^C and ^Z")
    ask("delete")
    wanted("bis_rollback (how=2" in ask("continue"), "the end")
    os.write(terminal, b"quit\n")
    until(f"{n}: result 0, how 2\n")
until("end\n")
wanted(os.waitpid(pid, 0)[1] == 0, "the status")
done = subprocess.run([bis, "replay", "-a", trace], capture_output=True, text=True)
wanted(done.returncode == 0 and done.stdout == said(), done)
