"""With several checkpoints, and of a program that runs live until its first one, a session stands where the one that was
asked for has returned last, and ends where the program asks. Backwards it leads beyond that, as far as the trace goes."""
from common import *
from subprocess import PIPE

WHERE = "monitor when"

for how in ("record", "run"):
    done = record("--on-replay=server", args=("nested",), how=how, stdout=PIPE, stderr=PIPE)
    expected = ""
    for tries in (0, 1):
        for name in ("before", "around"):
            line = next(line for line in done.stderr if "asks for a replay" in line)
            first, last = map(int, re.search(r"events (\d+) to (\d+)", line).groups())
            shown = gdb(address(done), WHERE, "print sum", "break add", "continue", "print step", "delete", "continue",
                        WHERE, "reverse-continue", WHERE)
            places = list(map(int, re.findall(r"Completed event: (\d+)", shown)))
            wanted(len(places) == 3 and places[0] == first and last - 1 <= places[1] <= last, (how, first, last, shown))
            wanted("$1 = 0\n" in shown and "bis_rollback (how=2" in shown, (how, name, shown))
            # Behind the outer checkpoint there is one more step than behind the inner one.
            wanted(f"$2 = {0 if name == 'before' else 1}\n" in shown, (how, name, shown))
            # In the other direction there is more: but in front of the first checkpoint of a program that ran live, nothing.
            wanted(places[2] < first or how == "run" and name == "around", (how, name, places, shown))
        expected += f"............{tries}: the sum is wrong\n{tries}: result 0, how 2\n{tries}: around it 0, how 2\n"
    out, err = done.communicate()
    wanted(done.returncode == 0 and out == expected + "end\n", (done.returncode, out, err))
    done = subprocess.run([bis, "replay", "-a", trace], capture_output=True, text=True)
    wanted(done.returncode == 0 and done.stdout == out, done)
    os.rename(trace, f"{trace}-{how}")
