"""A debugger that is started elsewhere looks at what was done; when it has left, the program goes on. Where the program
is killed meanwhile, nobody waits any more."""
from common import *
from subprocess import PIPE

done = record("--on-replay=server", stdout=PIPE, stderr=PIPE)
for n in (0, 1):
    shown = gdb(address(done), "print sum", "break add if step == 7", "continue", "print step", "finish", "print sum",
                "continue", "backtrace 2")
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
