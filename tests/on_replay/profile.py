"""A profile says where the time went: since the checkpoint."""
from common import *
from subprocess import PIPE

done = record("--on-replay=profile", stdout=PIPE, stderr=PIPE)
out, err = done.communicate()
wanted(done.returncode == 0 and out == said(), (done.returncode, out, err))
asked = re.findall(r"asks for a replay since its checkpoint: events (\d+) to (\d+)\n", err)
wanted(len(asked) == 2 and int(asked[0][0]) < int(asked[0][1]) < int(asked[1][0]) < int(asked[1][1]), err)
wanted(len(re.findall(r"bis: \d+ samples of [\d.]+ s of computing\n", err)) == 2, err)
stacks = [line for line in err.splitlines() if ";" in line]
# Nothing of what comes before main is in it.
wanted(stacks and all(";main;" in stack or stack.split(" ")[0].endswith(";main") for stack in stacks), err)
wanted(any(";main;add " in stack for stack in stacks), err)
replays(said())
