"""A program on a terminal of its own, as a user sits at it. Used by the scripts beside it; no test by itself."""
import fcntl, os, pty, re, select, shutil, signal, struct, subprocess, sys, tempfile, termios, time

BIS = sys.argv[1]
LIMIT_S = 60

# Whoever starts us in the background may ignore both, and so would all that we start: at a terminal, nobody does.
for number in [signal.SIGINT, signal.SIGQUIT]:
    signal.signal(number, signal.SIG_DFL)


class Desk:
    """Runs `argv`; what it shows is in `seen`."""

    def __init__(self, argv, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", PS1="% ", LC_ALL="C", INPUTRC="/dev/null", **env)
            os.execvp(argv[0], argv)
        self.resize(24, 80)
        self.seen, self.new = b"", b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settings(self):
        return termios.tcgetattr(self.fd)[:4]

    def take(self, wait_s):
        """False when nobody has the terminal open any more."""
        if select.select([self.fd], [], [], wait_s)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            self.new, self.seen = self.new + data, self.seen + data
            return bool(data)
        return True

    def expect(self, pattern):
        """Waits until it shows this; what came before is forgotten."""
        end = time.time() + LIMIT_S
        while not (found := re.search(pattern.encode(), self.new)):
            if time.time() > end or not self.take(0.2):
                sys.exit(f"failed to see {pattern!r} in {self.new[-500:]!r}")
        self.new = self.new[found.end():]

    def type(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.type(text + "\r")

    def end(self):
        """The exit status, negative for a signal."""
        end = time.time() + LIMIT_S
        while time.time() < end:
            open_still = self.take(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while open_still and select.select([self.fd], [], [], 0)[0]:
                    open_still = self.take(0)
                return os.waitstatus_to_exitcode(status)
            if not open_still:
                time.sleep(0.02)
        os.kill(self.pid, 9)
        sys.exit(f"did not end; it showed {self.seen[-500:]!r}")


folder = tempfile.mkdtemp(prefix="bis-terminal-")
count = 0


def recorded(argv):
    """The command that records `argv`, and the trace's folder."""
    global count
    count += 1
    trace = f"{folder}/{count}"
    return [BIS, "record", "-o", trace, "--", *argv], trace


def replay(trace):
    """What a replay shows on standard output; it must reach the end."""
    done = subprocess.run([BIS, "replay", "-a", trace], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"the replay of {trace} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout + done.stderr


def same(found, expected):
    if found != expected:
        sys.exit(f"expected {expected!r}, found {found!r}; traces in {folder}")


def done():
    shutil.rmtree(folder)
    print("terminal ok")
