#!/usr/bin/env python3
"""What it costs that calls are logged, as in Figures 5 to 7 of the Flashback paper: tables, and a plot as SVG.

usage: benches/scripts/logging.py [--rounds N] [--bis PATH] [--svg FILE]

Runs benches/programs/logged_calls.c without bis and under `bis record`: so many reads and writes of 4 KB (time, and the size of the
log), and 200 of up to 2 MB. The file that is read holds random bytes, 64 MB of them. Nothing else should run meanwhile; it takes
about a minute.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

PROGRAM = pathlib.Path(__file__).parent.parent / "programs/logged_calls.c"
COUNTS = [1000, 2000, 4000, 8000, 16000]
SIZES_KIB = [4, 16, 64, 256, 1024, 2048]
CALLS_OF_SIZES = 200
KINDS = ["read", "write"]
COLOURS = {("read", False): "#888888", ("write", False): "#bbbbbb", ("read", True): "#c0392b", ("write", True): "#1f6fb4"}


def name(kind, is_logged):
    return f"{kind}, {'logged' if is_logged else 'native'}"


class Runs:
    def __init__(self, bis, rounds, folder):
        self.bis, self.rounds, self.folder = bis, rounds, folder
        subprocess.run(["gcc", "-O2", "-w", "-o", folder / "calls", PROGRAM], check=True)
        (folder / "read").write_bytes(os.urandom(64 << 20))

    def run(self, kind, is_logged, calls, size):
        """The median time of all the calls, in milliseconds, and the size of the trace's log, in bytes."""
        times, log = [], 0
        for _ in range(self.rounds):
            trace = self.folder / "trace"
            command = [self.folder / "calls", kind, self.folder / kind, str(calls), str(size)]
            if is_logged:
                command = [self.bis, "record", "-o", trace, *command]
            times.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1000)
            if is_logged:
                log = sum((trace / part).stat().st_size for part in ("log", "blocks") if (trace / part).exists())
                subprocess.run(["rm", "-r", trace], check=True)
        return statistics.median(times), log


def table(title, first, rows, heads):
    print(f"\n{title}\n\n| {first} | " + " | ".join(heads) + " |\n| --- " + "| --- " * len(heads) + "|")
    for label, cells in rows:
        print(f"| {label} | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |")


def panel(across, down, title, labels, lines, below):
    """One plot, from zero up: `lines` are (name, colour, values)."""
    wide, high = 230, 180
    most = max(value for _, _, values in lines for value in values)
    parts = [f'<text x="{across}" y="{down - 8}">{title}</text>',
             f'<rect x="{across}" y="{down}" width="{wide}" height="{high}" fill="none" stroke="#cccccc"/>']
    for part in (0, 0.5, 1):
        parts.append(f'<text x="{across - 6}" y="{down + high - part * high + 4}" text-anchor="end">{most * part:.3g}</text>')
    x = lambda index: across + wide * index / (len(labels) - 1)
    for index, label in enumerate(labels):
        parts.append(f'<text x="{x(index)}" y="{down + high + 14}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{across + wide / 2}" y="{down + high + 30}" text-anchor="middle">{below}</text>')
    for number, (text, colour, values) in enumerate(lines):
        points = " ".join(f"{x(i):.1f},{down + high * (1 - value / most):.1f}" for i, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{across + 8}" y="{down + 16 + 14 * number}" fill="{colour}">{text}</text>')
    return parts


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--bis", default="target/release/bis")
    arguments.add_argument("--svg", type=pathlib.Path)
    given = arguments.parse_args()
    ways = [(kind, is_logged) for is_logged in (False, True) for kind in KINDS]
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(given.bis, given.rounds, pathlib.Path(folder))
        by_count = {way: [runs.run(*way, count, 4096) for count in COUNTS] for way in ways}
        by_size = {way: [runs.run(*way, CALLS_OF_SIZES, kib << 10)[0] for kib in SIZES_KIB] for way in ways}
    heads = [name(*way) for way in ways]
    rows = [(count, [by_count[way][i][0] for way in ways]) for i, count in enumerate(COUNTS)]
    table("Calls of 4 KB, ms (Figure 5)", "calls", rows, heads)
    rows = [(f"{kib} KB", [by_size[way][i] for way in ways]) for i, kib in enumerate(SIZES_KIB)]
    table(f"{CALLS_OF_SIZES} calls, ms (Figure 6)", "bytes each", rows, heads)
    rows = [(count, [by_count[kind, True][i][1] / 1e6 for kind in KINDS]) for i, count in enumerate(COUNTS)]
    table("The log, MB (Figure 7)", "calls", rows, KINDS)
    for kind in KINDS:
        slope = lambda logged: (by_count[kind, logged][-1][0] - by_count[kind, logged][0][0]) / (COUNTS[-1] - COUNTS[0]) * 1000
        print(f"\n{kind}: a call takes {slope(False):.2f} us without, {slope(True):.2f} us with a log")
    if given.svg:
        counts, sizes = [f"{count // 1000}k" for count in COUNTS], [f"{kib}" for kib in SIZES_KIB]
        parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 270" font-family="sans-serif" font-size="11">',
                 '<rect width="100%" height="100%" fill="white"/>']
        lines = [(name(*way), COLOURS[way], [time for time, _ in by_count[way]]) for way in ways]
        parts += panel(60, 40, "calls of 4 KB, ms", counts, lines, "calls")
        lines = [(name(*way), COLOURS[way], by_size[way]) for way in ways]
        parts += panel(370, 40, f"{CALLS_OF_SIZES} calls, ms", sizes, lines, "KB each")
        lines = [(kind, COLOURS[kind, True], [log / 1e6 for _, log in by_count[kind, True]]) for kind in KINDS]
        parts += panel(680, 40, "the log, MB", counts, lines, "calls of 4 KB")
        given.svg.write_text("\n".join([*parts, "</svg>", ""]))


if __name__ == "__main__":
    main()
