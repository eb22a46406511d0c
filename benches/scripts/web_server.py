#!/usr/bin/env python3
"""The web server experiment of the Flashback paper (Figures 8 to 10): tables, and a plot as SVG.

usage: benches/scripts/web_server.py [--seconds N] [--clients 1,2,...] [--kinds processes,threads] [--ways native,...]
                                     [--bis PATH] [--into FILE] [--svg FILE]

Apache (Debian's, unchanged) serves files of 5 KB to 5 MB on loopback, with a process for each connection or with threads: without
bis (native), under `bis record` (record), and so (checkpoints) or under `bis run` (run) with three checkpoints for each request,
which a preloaded library makes (benches/programs/web_shim.c). benches/programs/web_load.c asks. Nothing else should run meanwhile. --into keeps the results
as JSON, and adds to what is there: so it can be run in parts.
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = pathlib.Path(__file__).parent.parent / "programs"
SIZES = {"5k": 5 << 10, "50k": 50 << 10, "500k": 500 << 10, "5m": 5 << 20}
MODULES = "/usr/lib/apache2/modules"
CONFIG = """
ServerRoot {folder}
PidFile {folder}/pid
Listen 127.0.0.1:{port}
ServerName localhost
LoadModule mpm_{module}_module {modules}/mod_mpm_{module}.so
LoadModule authz_core_module {modules}/mod_authz_core.so
DocumentRoot {folder}/files
ErrorLog {folder}/errors
KeepAlive Off
User www-data
Group www-data
{size}
"""
# Room for 32 clients, from the begin on.
SERVERS = {
    "processes": ("prefork", "StartServers 33\nMinSpareServers 1\nMaxSpareServers 64\nMaxRequestWorkers 64"),
    "threads": ("worker", "StartServers 1\nServerLimit 1\nThreadsPerChild 36\nMaxRequestWorkers 36\nMinSpareThreads 1"),
}
COLOURS = {"native": "#888888", "record": "#1f6fb4", "checkpoints": "#c0392b", "run": "#2a9d55"}
TICK = os.sysconf("SC_CLK_TCK")


def busy():
    """The processor time that all have taken since the machine began, seconds."""
    user, nice, system, _idle, _wait, *rest = map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + sum(rest[:2])) / TICK


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    def __init__(self, folder, kind, way, bis):
        self.port = free_port()
        module, size = SERVERS[kind]
        config = folder / "config"
        config.write_text(CONFIG.format(folder=folder, port=self.port, module=module, modules=MODULES, size=size))
        command = ["/usr/sbin/apache2", "-DFOREGROUND", "-f", str(config)]
        if way != "native":
            more = []
            if way in ("checkpoints", "run"):
                threads = ["-e", "WEB_SHIM=threads"] if kind == "threads" else []
                more = ["-e", f"LD_PRELOAD={folder}/shim.so", *threads]
            command = [bis, "run" if way == "run" else "record", "-o", str(folder / "trace"), *more, "--", *command]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(600):
            if self.process.poll() is not None:
                raise SystemExit(f"the server has ended: {(folder / 'errors').read_text()}")
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        time.sleep(1)
        self.pid = int((folder / "pid").read_text())

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        self.process.wait(60)


def measure(given):
    results = json.loads(given.into.read_text()) if given.into and given.into.exists() else {}
    for kind in given.kinds.split(","):
        for way in given.ways.split(","):
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                folder.chmod(0o755)
                subprocess.run(["gcc", "-O2", "-w", "-o", folder / "load", PROGRAMS / "web_load.c"], check=True)
                shim = ["gcc", "-O2", "-w", "-shared", "-fPIC", "-o", folder / "shim.so", PROGRAMS / "web_shim.c"]
                subprocess.run(shim, check=True)
                (folder / "files").mkdir()
                for name, size in SIZES.items():
                    (folder / "files" / name).write_bytes(os.urandom(size))
                server = Server(folder, kind, way, given.bis)
                load = [folder / "load", str(server.port)]
                subprocess.run([*load, "4", "1"], check=True, stdout=subprocess.DEVNULL)
                for clients in map(int, given.clients.split(",")):
                    before = busy()
                    told = subprocess.run([*load, str(clients), str(given.seconds)], check=True, capture_output=True, text=True)
                    requests, megabytes, mean, longest, seconds, own = map(float, told.stdout.split())
                    used = busy() - before - own
                    row = {"requests": requests / seconds, "megabits": megabytes * 8 / seconds, "mean": mean,
                           "longest": longest, "cpu": used / requests * 1e3, "load": used / seconds}
                    results.setdefault(kind, {}).setdefault(way, {})[str(clients)] = row
                    print(kind, way, clients, {name: round(value, 3) for name, value in row.items()}, flush=True)
                server.stop()
                if given.into:
                    given.into.write_text(json.dumps(results, indent=1))
    return results


def tables(results):
    for kind, ways in results.items():
        print(f"\n{kind}: requests a second; mean response, ms; processor time of a request, ms; cores that are busy\n")
        print("| clients | " + " | ".join(ways) + " |\n| --- " + "| --- " * len(ways) + "|")
        for clients in next(iter(ways.values())):
            cells = []
            for way in ways.values():
                row = way.get(clients)
                cells.append(f"{row['requests']:.0f}; {row['mean']:.2f}; {row['cpu']:.2f}; {row['load']:.2f}" if row else "")
            print(f"| {clients} | " + " | ".join(cells) + " |")


def plot(results):
    """For each kind of server: throughput, response time, processor time."""
    wide, high, left, gap = 230, 180, 60, 70
    shown = [("requests", "requests a second"), ("mean", "mean response, ms"), ("cpu", "processor time of a request, ms")]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + 3 * (wide + gap)} {(high + 80) * len(results) + 30}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for line, (kind, ways) in enumerate(results.items()):
        for column, (name, text) in enumerate(shown):
            across, down = left + column * (wide + gap), 30 + line * (high + 80)
            most = max(row[name] for rows in ways.values() for row in rows.values())
            parts.append(f'<text x="{across}" y="{down - 8}">Apache, {kind}: {text}</text>')
            parts.append(f'<rect x="{across}" y="{down}" width="{wide}" height="{high}" fill="none" stroke="#cccccc"/>')
            for part in (0, 0.5, 1):
                at = down + high - part * high
                parts.append(f'<text x="{across - 6}" y="{at + 4}" text-anchor="end">{most * part:.3g}</text>')
            for number, (way, rows) in enumerate(ways.items()):
                counts = list(rows)
                x = lambda index: across + wide * index / max(len(counts) - 1, 1)
                points = [(x(i), down + high * (1 - rows[count][name] / most)) for i, count in enumerate(counts)]
                text = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
                parts.append(f'<polyline points="{text}" fill="none" stroke="{COLOURS[way]}" stroke-width="2"/>')
                if number == 0:
                    for index, count in enumerate(counts):
                        parts.append(f'<text x="{x(index)}" y="{down + high + 14}" text-anchor="middle">{count}</text>')
            parts.append(f'<text x="{across + wide / 2}" y="{down + high + 30}" text-anchor="middle">clients</text>')
    measured = [way for way in COLOURS if any(way in ways for ways in results.values())]
    for number, way in enumerate(measured):
        at = 30 + (high + 80) * len(results)
        parts.append(f'<text x="{left + number * 120}" y="{at}" fill="{COLOURS[way]}">{way}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=4)
    arguments.add_argument("--clients", default="1,2,4,8,16,32")
    arguments.add_argument("--kinds", default="processes,threads")
    arguments.add_argument("--ways", default="native,record,checkpoints")
    arguments.add_argument("--bis", default="target/release/bis")
    arguments.add_argument("--into", type=pathlib.Path)
    arguments.add_argument("--svg", type=pathlib.Path)
    given = arguments.parse_args()
    results = measure(given) if given.seconds else json.loads(given.into.read_text())
    tables(results)
    if given.svg:
        given.svg.write_text(plot(results))


if __name__ == "__main__":
    main()
