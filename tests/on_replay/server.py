"""A debugger that is started elsewhere looks at what was done; when it has left, the program goes on. Where the program
is killed meanwhile, nobody waits any more."""
from common import *
from subprocess import PIPE


def address(done):
    for line in done.stderr:
        found = re.search(r"target extended-remote ([\d.:]+)'", line)
        if found:
            return found[1]
    sys.exit("no address was said")


done = record("--on-replay=server", stdout=PIPE, stderr=PIPE)
for n in (0, 1):
    commands = ["set sysroot /", f"target extended-remote {address(done)}", "print sum", "break add if step == 7",
                "continue", "print step", "finish", "print sum", "continue", "backtrace 2"]
    line = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    for command in commands:
        line += ["-ex", command]
    shown = subprocess.run([*line, program], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    before = 21 + 7 * n
    for text in ("$1 = 0\n", "$2 = 7\n", f"$3 = {before - 7 - n}\n", "bis_rollback (how=2"):
        wanted(text in shown, (n, text, shown))
out, err = done.communicate()
wanted(done.returncode == 0 and out == said(), (done.returncode, out, err))
replays(said())

os.rename(trace, trace + "-first")
done = record("--on-replay=server", stdout=PIPE, stderr=PIPE)
address(done)
line = done.stdout.readline()
tracee = subprocess.run([bis, "ps", "--rr", trace], capture_output=True, text=True).stdout.splitlines()[-1].split()[0]
os.kill(int(tracee), 9)
out, err = done.communicate()
wanted(done.returncode == 137, (done.returncode, out, err))
done = subprocess.run([bis, "replay", "-a", trace], capture_output=True, text=True)
wanted(done.returncode == 0 and done.stdout == line, done)
