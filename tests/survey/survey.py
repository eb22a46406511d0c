#!/usr/bin/python3
"""Records and replays real programs many times, and writes a table of what held.

usage: tests/survey/survey.py [--runs N] [--bis PATH] [--work FOLDER] [NAME...]
       tests/survey/survey.py --table > docs/programs.md

A program is a file tests/survey/NAME.sh, or one of tests/real, in the sections that crates/bis/tests/real.rs
describes (setup, record, drive, check). More may stand before the sections:

# version: COMMAND    the first line that it prints is the version (default: the first needed program's --version)
# package: NAME       the Debian package of the table's version column, instead of `version`
# varies: REASON      why the output of two native runs differs; then only the status is compared with native
# stderr varies: REASON   the same for standard error alone
# remark: TEXT        what the table says of it
# gdb: PROCESS        which process is debugged (-p), instead of the first
# no gdb: REASON      why no debugger is tried

Each run has a fresh folder, always with the same path. The program runs natively twice (what differs between the
two is not compared), and then N times recorded, each replayed. A run counts as recorded if the status and the output
are the native ones and the check holds; it counts as replayed if `bis replay -a` ends with 0 and writes what the
recorded run wrote. Of the last run, gdb goes to the end, two instructions back, to the begin, and to the end again.
Results go to target/survey/results/NAME.json; a failed run keeps its trace and output in target/survey/failed/.
"""
import argparse, json, os, re, shutil, signal, subprocess, sys, time

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECTIONS = ("setup", "record", "drive", "check")
# What is no program, or is about bis alone: it does something else natively.
NOT_PROGRAMS = ("soak.sh", "sources.sh", "checkpoints_python.sh")
GDB = """set pagination off
set confirm off
when
reverse-stepi
reverse-stepi
when
reverse-continue
when
continue
when
"""

INTRODUCTION = """# Programs that were tried

Written by `tests/survey/survey.py --table`, from what `tests/survey/survey.py` has seen on the machine of this date.
Each program is a file of `tests/survey` or `tests/real`; most of them run several programs, as servers with their
clients do. *recorded*: how many of the recordings had the status and the output of native runs (where two native runs
have the same), and did what the file checks. *replayed*: how many of those replayed with status 0 and the same output.
*gdb*: in the last recording, gdb went to the end, two instructions back, to the begin, and to the end again. The times
are of one native run and of the middle recording, on a machine with two cores that did other work meanwhile: they say
that nothing stalls, and no more.
"""


class Program:
    def __init__(self, path):
        self.name = os.path.basename(path)[:-3]
        self.keys, self.sections, section = {}, {}, None
        for line in open(path):
            word = line[2:].strip() if line.startswith("# ") else None
            if word in SECTIONS:
                section = word
                self.sections[section] = ""
            elif section:
                self.sections[section] += line
            elif word and ":" in word:
                key, _, value = word.partition(":")
                self.keys[key] = value.strip()
        self.limit = int(self.keys.get("limit", 180))
        self.needs = self.keys.get("needs", "").split()

    def missing(self):
        if "source" in self.keys and not os.path.isdir(f"{TREE}/target/sources/{self.keys['source']}"):
            return "the source package " + self.keys["source"]
        path = os.environ["PATH"]
        gone = [p for p in self.needs if not shutil.which(p, path=path)]
        return gone[0] if gone else None

    def version(self):
        if "package" in self.keys:
            ask = "dpkg-query -W -f '${Version}\\n' " + self.keys["package"]
        else:
            ask = self.keys.get("version") or (self.needs or [self.name])[0] + " --version"
        done = subprocess.run(["bash", "-c", ask + " 2>&1 | grep -m1 '[0-9]'"], stdout=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL)
        found = re.search(r"\d+(\.[\w+~-]+)+", done.stdout) or re.search(r"\d+", done.stdout)
        return found.group(0) if found else "?"


class Failure(Exception):
    pass


def start(argv, cwd, out, err, env=None):
    """Starts argv, in a session of its own, and returns its process; its outputs go to files."""
    return subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=open(out, "wb"), stderr=open(err, "wb"),
                            env=env, start_new_session=True)


def finish(process, limit, what):
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise Failure(f"{what}: no end after {limit} s")
    return 128 - status if status < 0 else status


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Survey:
    def __init__(self, args):
        self.args = args
        self.cwd, self.logs = f"{args.work}/cwd", f"{args.work}/logs"
        self.path = os.environ["PATH"]

    def script(self, program, section, env):
        text = program.sections.get(section, "")
        if not text:
            return
        argv = ["bash", "-euo", "pipefail", "-c", text]
        process = start(argv, self.cwd, f"{self.logs}/{section}.out", f"{self.logs}/{section}.err", env)
        status = finish(process, program.limit, section)
        if status:
            last = read(f"{self.logs}/{section}.err")[-300:].decode(errors="replace")
            raise Failure(f"{section}: status {status}: {last}")

    def subject(self, program, before):
        """One run of all sections; `before` is what stands in front of the recorded command."""
        for folder in (self.cwd, self.logs):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        out, err = f"{self.logs}/subject.out", f"{self.logs}/subject.err"
        env = dict(os.environ, PATH=self.path, OUT=out, ERR=err, TREE=TREE, SOURCES=f"{TREE}/target/sources")
        self.script(program, "setup", env)
        argv = before + ["sh", "-c", program.sections["record"].strip()]
        plain = dict(os.environ, PATH=self.path)
        began = time.time()
        process = start(argv, self.cwd, out, err, plain)
        try:
            self.script(program, "drive", env)
        except Failure:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        status = finish(process, program.limit, "the program")
        took = time.time() - began
        self.script(program, "check", env)
        return status, read(out), read(err), took

    def compare(self, program, then, now, whom):
        (status, out, err), (status_now, out_now, err_now) = then[:3], now[:3]
        if status != status_now:
            raise Failure(f"{whom}: status {status_now}, not {status}: {err_now[-300:].decode(errors='replace')}")
        if whom == "recorded" and "varies" in program.keys:
            return
        if out != out_now:
            raise Failure(f"{whom}: other standard output")
        if err != err_now and not (whom == "recorded" and "stderr varies" in program.keys):
            raise Failure(f"{whom}: other standard error: {err_now[-300:].decode(errors='replace')}")

    def replay(self, program, recorded, trace):
        out, err = f"{self.logs}/replay.out", f"{self.logs}/replay.err"
        process = start([self.args.bis, "replay", "-a", trace], self.logs, out, err)
        status = finish(process, 2 * program.limit, "replay")
        if status:
            raise Failure(f"replay: status {status}: {read(err)[-600:].decode(errors='replace')}")
        self.compare(program, (0, *recorded[1:3]), (0, read(out), read(err)), "replay")

    def debug(self, program, trace):
        commands, out, err = f"{self.logs}/back.gdb", f"{self.logs}/gdb.out", f"{self.logs}/gdb.err"
        with open(commands, "w") as file:
            file.write(GDB)
        argv = [self.args.bis, "replay", "-q", "-e", "-o", "--batch", "-x", commands]
        argv += ["-p", program.keys["gdb"]] if "gdb" in program.keys else []
        limit = max(300, 2 * program.limit)
        process = start(argv + [trace], self.logs, out, err)
        status = finish(process, limit, "gdb")
        text = read(out).decode(errors="replace")
        places = [int(n) for n in re.findall(r"Completed event: (\d+)", text)]
        if status or len(places) != 4 or places[0] != places[3] or not places[0] >= places[1] > places[2]:
            wrong = read(err)[-300:].decode(errors="replace")
            raise Failure(f"gdb: status {status}, places {places}: {wrong}")

    def kept(self, program, round, trace):
        folder = f"{TREE}/target/survey/failed/{program.name}-{round}"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        shutil.copytree(self.logs, folder, ignore=shutil.ignore_patterns("trace"))
        if os.path.isdir(trace):
            shutil.move(trace, f"{folder}/trace")
        return folder

    def program(self, program):
        result = {"name": program.name, "version": program.version(), "runs": 0, "recorded": 0, "replayed": 0,
                  "gdb": None, "failures": [], "remark": program.keys.get("remark", "")}
        trace = f"{self.args.work}/trace"
        try:
            native = self.subject(program, [])
            again = self.subject(program, [])
            if native[1] != again[1]:
                program.keys.setdefault("varies", "two native runs differ")
            if native[2] != again[2]:
                program.keys.setdefault("stderr varies", "two native runs differ")
        except Failure as failure:
            result["failures"].append(f"native: {failure}")
            self.kept(program, "native", trace)
            return result
        times = []
        for round in range(1, self.args.runs + 1):
            shutil.rmtree(trace, ignore_errors=True)
            result["runs"] += 1
            try:
                recorded = self.subject(program, [self.args.bis, "record", "--wait", "-o", trace, "--"])
                self.compare(program, native, recorded, "recorded")
                result["recorded"] += 1
                times.append(recorded[3])
                self.replay(program, recorded, trace)
                result["replayed"] += 1
                if round == self.args.runs and "no gdb" not in program.keys:
                    result["gdb"] = False
                    self.debug(program, trace)
                    result["gdb"] = True
            except Failure as failure:
                folder = self.kept(program, round, trace)
                result["failures"].append(f"run {round}: {failure} [{folder}]")
                if len(result["failures"]) >= 3:
                    break
        shutil.rmtree(trace, ignore_errors=True)
        result["native_s"] = round_to(native[3])
        result["recorded_s"] = round_to(sorted(times)[len(times) // 2]) if times else None
        return result


def round_to(seconds):
    return round(seconds, 2)


def programs():
    found = {}
    for folder in ("real", "survey"):
        for file in sorted(os.listdir(f"{TREE}/tests/{folder}")):
            if file.endswith(".sh") and file not in NOT_PROGRAMS:
                found[file[:-3]] = f"{TREE}/tests/{folder}/{file}"
    return [Program(found[name]) for name in sorted(found)]


def table(results):
    rows = [json.load(open(f"{results}/{file}")) for file in sorted(os.listdir(results))]
    print(INTRODUCTION)
    print("| program | version | recorded | replayed | gdb | native s | recorded s | remarks |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    words = {True: "yes", False: "no", None: "not tried"}
    for row in rows:
        counts = [f"{row[key]} of {row['runs']}" for key in ("recorded", "replayed")]
        times = [str(row.get(key, "")) for key in ("native_s", "recorded_s")]
        print("|", " | ".join([row["name"], row["version"], *counts, words[row["gdb"]], *times, row["remark"]]), "|")
    runs, held = sum(row["runs"] for row in rows), sum(row["replayed"] for row in rows)
    print(f"\n{len(rows)} programs, {runs} recordings, of which {held} were as natively and replayed.")
    print(open(f"{TREE}/tests/survey/suites.md").read(), end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--bis", default=f"{TREE}/target/release/bis")
    parser.add_argument("--work", default=f"{TREE}/target/survey/work")
    parser.add_argument("--table", action="store_true", help="only print the table of the results that there are")
    parser.add_argument("--new", action="store_true", help="leave out programs of which there are results")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    args.bis, args.work = os.path.abspath(args.bis), os.path.abspath(args.work)
    results = f"{TREE}/target/survey/results"
    if args.table:
        return table(results)
    os.makedirs(results, exist_ok=True)
    os.environ["PATH"] += ":/usr/sbin:/sbin:/usr/games"
    for folder in sorted(os.listdir("/usr/lib/postgresql")) if os.path.isdir("/usr/lib/postgresql") else []:
        os.environ["PATH"] += f":/usr/lib/postgresql/{folder}/bin"
    failed = 0
    for program in programs():
        if args.names and program.name not in args.names:
            continue
        if args.new and os.path.exists(f"{results}/{program.name}.json"):
            continue
        missing = program.missing()
        if missing or args.list:
            print(f"{program.name}: " + (f"left out: {missing} is not there" if missing else "is there"), flush=True)
            continue
        result = Survey(args).program(program)
        with open(f"{results}/{program.name}.json", "w") as file:
            json.dump(result, file, indent=1)
        failed += bool(result["failures"])
        print(f"{program.name} {result['version']}: {result['recorded']} recorded and {result['replayed']} replayed "
              f"of {result['runs']}, gdb {result['gdb']}, {result.get('native_s')} s natively, "
              f"{result.get('recorded_s')} s recorded", *result["failures"], sep="\n  ", flush=True)
    return failed and 1


if __name__ == "__main__":
    sys.exit(main())
