"""What the scripts here share. Each is called with bis, the program, and an empty folder."""
import os, re, subprocess, sys, time

bis, program, folder = sys.argv[1:4]
trace = os.path.join(folder, "trace")
SAID = "............{n}: the sum is wrong\n{n}: result {result}, how {how}\n"


def said(result=0, how=(2, 2)):
    """What the program writes."""
    return "".join(SAID.format(n=n, result=result, how=how[n]) for n in (0, 1)) + "end\n"


def wanted(is_so, what):
    if not is_so:
        sys.exit(f"not as wanted: {what}")


def replays(expected):
    """The whole trace replays, and writes the same."""
    done = subprocess.run([bis, "replay", "-a", trace], capture_output=True, text=True)
    wanted(done.returncode == 0 and done.stdout == expected, done)


def record(*words, args=(), how="record", **more):
    line = [bis, how, "-o", trace, *words, "--", program, *args]
    return subprocess.Popen(line, text=True, **more)


def address(done):
    """Where the recording says that a debugger can be connected."""
    for line in done.stderr:
        found = re.search(r"target extended-remote ([\d.:]+)'", line)
        if found:
            return found[1]
    sys.exit("no address was said")


def gdb(where, *commands):
    """What gdb shows, connected there."""
    line = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    for command in ["set width 0", "set sysroot /", f"target extended-remote {where}", *commands]:
        line += ["-ex", command]
    done = subprocess.run([*line, program], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout + done.stderr
