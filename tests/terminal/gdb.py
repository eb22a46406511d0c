"""`bis run --gdb` at a terminal: gdb has it, with its line editing and ^C, while the program writes there; and behind
it the terminal is as it was."""
from desk import *
import shlex

programs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../debug/programs")


def built(name):
    program = f"{folder}/{name}"
    subprocess.run(["gcc", "-g", "-O0", "-o", program, f"{programs}/{name}.c"], check=True)
    return program


def run(name, *arguments):
    trace = f"{folder}/trace-{name}"
    return [BIS, "run", "--gdb", "-o", trace, "--", built(name), *arguments], trace


PROMPT = r"\(gdb\) "

# In an interactive shell, which sees what gdb leaves of the terminal.
command, trace = run("live")
desk = Desk(["bash", "--norc", "--noprofile", "-i"], GDBHISTFILE="/dev/null")
desk.expect("% ")
desk.line("stty -a | md5sum")
desk.expect(r"([0-9a-f]{32})")
before = re.findall(rb"[0-9a-f]{32}", desk.seen)[-1]
desk.line(shlex.join(command))
desk.expect(PROMPT)
desk.line("set pagination off")
desk.expect(PROMPT)
desk.line("break work")
desk.expect("Breakpoint 1 at")
desk.expect(PROMPT)
desk.line("continue")
# What the program writes is on the same terminal.
desk.expect("begin\r\n")
desk.expect(r"work \(n=10\)")
desk.expect(PROMPT)
# gdb edits the line: it completes the name, and takes a letter back.
desk.type("print tota\t")
desk.expect("print total ")
desk.type("x\x7f\r")
desk.expect(r"\$1 = 0")
desk.expect(PROMPT)
desk.line("checkpoint")
desk.expect("Checkpoint 1 at work")
desk.expect(PROMPT)
desk.line("continue")
desk.expect("round 1: 55\r\n")
desk.expect(r"work \(n=20\)")
desk.expect(PROMPT)
desk.line("rollback")
desk.expect(r"work \(n=10\)")
desk.expect(PROMPT)
desk.line("delete 1")
desk.expect(PROMPT)
desk.line("continue")
desk.expect("round 2: 210\r\n")
desk.expect("round 3: 465\r\n")
desk.expect("end 730\r\n")
desk.expect("the program has gone on live")
desk.expect("exited with status 7")
desk.expect(PROMPT)
# The session is one on what was recorded, which gdb asks about before it leaves it.
desk.line("quit")
desk.expect(r"Quit anyway\? \(y or n\) ")
desk.line("y")
desk.expect("% ")
desk.line("echo st$((0))=$?")
desk.expect("st0=7\r\n")
desk.line("stty -a | md5sum")
desk.expect(r"([0-9a-f]{32})")
same(re.findall(rb"[0-9a-f]{32}", desk.seen)[-1], before)
desk.line("exit 5")
same(desk.end(), 5)
same(replay(trace), b"begin\nround 1: 55\nround 2: 210\nround 3: 465\nend 730\n")

# ^C is gdb's: it stops the program, which computes, and ends nothing.
command, trace = run("long", "30000000000")
desk = Desk(command, GDBHISTFILE="/dev/null")
desk.expect(PROMPT)
desk.line("tbreak spin")
desk.expect(PROMPT)
desk.line("continue")
desk.expect(r"spin \(count=1000000\)")
desk.expect(PROMPT)
desk.line("continue")
desk.expect(r"Continuing\.")
time.sleep(0.7)
desk.type("\x03")
desk.expect("received signal SIGINT")
desk.expect(PROMPT)
desk.line("print spins > 0")
desk.expect(r"\$1 = 1")
desk.expect(PROMPT)
desk.line("kill")
desk.expect(r"\(y or n\) ")
desk.line("y")
desk.expect(PROMPT)
desk.line("quit")
same(desk.end(), 137)
done()
