"""Where there is no gdb, nothing was replayed: the program is told, and bis says why."""
from common import *
from subprocess import PIPE

done = record("--on-replay=gdb", stdin=subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, env={**os.environ, "PATH": folder})
out, err = done.communicate()
wanted(done.returncode == 0 and out == said(-5, (0, 1)), (done.returncode, out, err))
wanted("failed" in err and "no such program; install gdb" in err, err)
replays(said(-5, (0, 1)))
