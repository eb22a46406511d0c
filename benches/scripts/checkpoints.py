#!/usr/bin/env python3
"""What checkpoints cost, as in Figure 4 of the Flashback paper: a table, and a plot as SVG.

usage: benches/scripts/checkpoints.py [--rounds N] [--bis PATH] [--svg FILE]

Runs benches/programs/checkpoint.c under `bis record`, which measures itself, for a process of 512 MB that changes from 4 KB to
400 MB of its memory behind each checkpoint. Nothing else should run meanwhile; it takes about a minute.
"""
import argparse
import math
import pathlib
import statistics
import subprocess
import tempfile

TOTAL_KIB = 512 << 10
CHANGED_KIB = [4, 40, 400, 4 << 10, 40 << 10, 400 << 10]
PROGRAM = pathlib.Path(__file__).parent.parent / "programs/checkpoint.c"
# What the program prints in a line, and which of it is plotted, in which colour.
COLUMNS = ["fork", "writes beside it", "its end", "checkpoint", "writes beside it", "discard", "rollback"]
PLOTTED = {0: "#888888", 2: "#bbbbbb", 3: "#1f6fb4", 5: "#2a9d55", 6: "#c0392b"}


def size(kib):
    return f"{kib >> 10} MB" if kib >= 1 << 10 else f"{kib} KB"


def measure(bis, rounds):
    """For each amount of changed memory, the median of each column, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run(["gcc", "-O2", "-w", "-o", folder / "checkpoint", PROGRAM], check=True)
        medians = []
        for changed in CHANGED_KIB:
            trace = folder / f"trace-{changed}"
            command = [bis, "record", "-o", trace, folder / "checkpoint", str(TOTAL_KIB), str(changed), str(rounds)]
            lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
            columns = zip(*[map(float, line.split()) for line in lines])
            medians.append([statistics.median(column) / 1000 for column in columns])
        return medians


def table(medians):
    print("| changed | " + " | ".join(COLUMNS) + " |")
    print("| --- " * (len(COLUMNS) + 1) + "|")
    for changed, row in zip(CHANGED_KIB, medians):
        print(f"| {size(changed)} | " + " | ".join(f"{value:.3g}" for value in row) + " |")


def plot(medians):
    """Both axes are logarithmic."""
    left, top, wide, high = 60, 20, 520, 300
    low, full = -1, 3
    x = lambda index: left + wide * index / (len(CHANGED_KIB) - 1)
    y = lambda value: top + high * (full - math.log10(max(value, 10**low))) / (full - low)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 120} {top + high + 50}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(low, full + 1):
        at = y(10**power)
        parts.append(f'<line x1="{left}" x2="{left + wide}" y1="{at}" y2="{at}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4}" text-anchor="end">{10**power:g} ms</text>')
    for index, changed in enumerate(CHANGED_KIB):
        parts.append(f'<text x="{x(index)}" y="{top + high + 18}" text-anchor="middle">{size(changed)}</text>')
    parts.append(f'<text x="{left + wide / 2}" y="{top + high + 40}" text-anchor="middle">of {size(TOTAL_KIB)} changed</text>')
    ends = []
    for column, colour in PLOTTED.items():
        points = [(x(index), y(row[column])) for index, row in enumerate(medians)]
        line = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append((points[-1][1], COLUMNS[column], colour))
    # Names do not lie on each other.
    at = 0
    for down, name, colour in sorted(ends):
        at = max(down + 4, at + 14)
        parts.append(f'<text x="{left + wide + 8}" y="{at:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--bis", default="target/release/bis")
    arguments.add_argument("--svg", type=pathlib.Path)
    given = arguments.parse_args()
    medians = measure(given.bis, given.rounds)
    table(medians)
    if given.svg:
        given.svg.write_text(plot(medians))


if __name__ == "__main__":
    main()
