"""Without a debugger, what was done is executed again and compared. Where there is no trace to be read, the program is
told, and bis says why."""
from common import *
from subprocess import PIPE

expected = said()
done = record(stdout=PIPE, stderr=PIPE)
out, err = done.communicate()
wanted(done.returncode == 0 and out == expected and err == "", (done.returncode, out, err))
replays(expected)

trace_was, trace_is = os.path.join(trace, "log"), os.path.join(trace, "away")
os.rename(trace, trace + "-first")
done = record(stdin=PIPE, stdout=PIPE, stderr=PIPE, args=("wait",))
for n in (0, 1):
    wanted("wrong" in done.stdout.readline(), "the sum")
    os.rename(trace_was, trace_is)
    done.stdin.write("go\n")
    done.stdin.flush()
    line = done.stdout.readline()
    wanted(line == f"{n}: result -5, how {n}\n", line)
    os.rename(trace_is, trace_was)
# Not by communicate, which does not know what readline has in its buffer.
out, err = done.stdout.read(), done.stderr.read()
wanted(done.wait() == 0 and out == "end\n" and "failed" in err and trace in err, (done.returncode, out, err))
replays(said(-5, (0, 1)))
