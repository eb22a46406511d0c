"""A client's interrupt that comes together with what it is for stops that, however soon it comes."""
from common import *
from subprocess import PIPE
import socket


class Client:
    def __init__(self, where):
        host, port = where.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.heard = b""

    def ask(self, packet, behind=b""):
        """The answer to a packet, right behind which this is sent."""
        self.socket.sendall(b"$%s#%02x%s" % (packet, sum(packet) % 256, behind))
        while not (found := re.search(rb"\$([^#]*)#..", self.heard)):
            more = self.socket.recv(4096)
            wanted(more, "the server has gone")
            self.heard += more
        self.heard = self.heard[found.end():]
        self.socket.sendall(b"+")
        return found[1].decode()


done = record("--on-replay=server", stdout=PIPE, stderr=PIPE)
for n in (0, 1):
    client = Client(address(done))
    client.ask(b"qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+")
    for number in range(20):
        # From the begin on, it would go to where the program asks for the replay.
        answer = client.ask(b"bc")
        wanted("replaylog:begin" in answer, (n, number, answer))
        answer = client.ask(b"vCont;c", b"\x03")
        wanted(answer.startswith("T02"), (n, number, answer))
    # It is not for what comes behind: that goes on to the end.
    answer = client.ask(b"vCont;c")
    wanted("replaylog:end" in answer, (n, answer))
    client.socket.close()
out, err = done.communicate()
wanted(done.returncode == 0 and out == said(), (done.returncode, out, err))
