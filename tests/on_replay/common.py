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


def record(*words, args=(), **more):
    line = [bis, "record", "-o", trace, *words, "--", program, *args]
    return subprocess.Popen(line, text=True, **more)
