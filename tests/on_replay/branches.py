"""A way back is a branch of the recording: `bis ps`, `bis dump` and `bis info` show by which event the process went back, and
to which one."""
from common import *
import json

done = record(stdout=subprocess.PIPE)
done.communicate()
wanted(done.returncode == 0, done)


def bis_says(*words):
    return subprocess.run([bis, *words, trace], capture_output=True, text=True, check=True).stdout


ways = json.loads(bis_says("ps", "--json"))["ways_back"]
wanted(len(ways) == 1, ways)
by, to = ways[0]["by"], ways[0]["to"]
wanted(f"back to event {to}, by event {by}\n" in bis_says("ps"), "bis ps")
wanted("\nways back    1 " in bis_says("info"), "bis info")
events = {event["seq"]: event for event in map(json.loads, bis_says("dump", "--json").splitlines())}
wanted(events[by]["back_to"] == to and sum("back_to" in event for event in events.values()) == 1, "dump --json")
lines = {int(line.split()[0]): line for line in bis_says("dump").splitlines()}
wanted(re.search(r"bis_checkpoint\(0x[0-9a-f]+\) = 0$", lines[to]), lines[to])
wanted(re.search(r"bis_rollback\(0x[0-9a-f]+\) = 1, back to event \d+$", lines[by]), lines[by])
