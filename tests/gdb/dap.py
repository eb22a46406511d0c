#!/usr/bin/env python3
"""A client of the Debug Adapter Protocol, as editors are, in sessions with `bis replay -i=dap` from the first request to the last.
usage: dap.py BIS DATA CALLS       traces of tests/debug/programs/data.c and calls.c; the gdb on the path is 14 or newer
The status is 0 if all is as it is to be; else what was said is shown."""
import json
import queue
import subprocess
import sys
import threading
import time

LIMIT_S = 120


class Session:
    """One adapter. What comes is kept in order, and looked at by who waits for it."""

    def __init__(self, command):
        self.said, self.events, self.count = [], [], 0
        self.come = queue.Queue()
        self.adapter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        out = self.adapter.stdout
        while True:
            head = out.readline()
            if not head:
                return self.come.put(None)
            name, _, length = head.partition(b":")
            if name != b"Content-Length" or out.readline().strip():
                return self.come.put({"type": "event", "event": "no message", "body": head.decode(errors="replace")})
            self.come.put(json.loads(out.read(int(length))))

    def next(self):
        message = self.come.get(timeout=LIMIT_S)
        assert message is not None, "the adapter has ended"
        self.said.append("< " + json.dumps(message))
        return message

    def fails(self, command, **arguments):
        """Asks, and waits for the answer."""
        self.count += 1
        text = json.dumps({"seq": self.count, "type": "request", "command": command, "arguments": arguments})
        self.said.append("> " + text)
        self.adapter.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text.encode()))
        self.adapter.stdin.flush()
        while True:
            message = self.next()
            if message["type"] == "response" and message["request_seq"] == self.count:
                return message
            self.events.append(message)

    def ask(self, command, **arguments):
        answer = self.fails(command, **arguments)
        assert answer["success"], answer
        return answer.get("body")

    def stopped(self):
        """The stop that follows."""
        while True:
            for place, event in enumerate(self.events):
                if event["event"] == "stopped":
                    del self.events[place]
                    return event["body"]
            self.events.append(self.next())

    def moves(self, command, **arguments):
        self.ask(command, threadId=1, **arguments)
        return self.stopped()

    def at(self):
        """The function and the line."""
        frame = self.ask("stackTrace", threadId=1, startFrame=0, levels=1)["stackFrames"][0]
        return frame["name"], frame.get("line")

    def says(self, command):
        """What gdb shows for one of its commands."""
        return self.ask("evaluate", expression=command, context="repl")["result"]

    def value(self, expression):
        frame = self.ask("stackTrace", threadId=1, startFrame=0, levels=1)["stackFrames"][0]["id"]
        return self.ask("evaluate", expression=expression, context="watch", frameId=frame)["result"]

    def begin(self, how, function="scope", **arguments):
        capabilities = self.ask("initialize", clientID="test", adapterID="gdb", linesStartAt1=True)
        assert len(self.said) == 2, "something was told before the answer to the first request"
        assert capabilities["supportsStepBack"] and capabilities["supportsDataBreakpoints"]
        self.ask(how, **arguments)
        points = self.ask("setFunctionBreakpoints", breakpoints=[{"name": function}])["breakpoints"]
        assert points[0]["verified"], points
        self.ask("setExceptionBreakpoints", filters=[])
        self.ask("configurationDone")
        return points[0]["id"], self.stopped()

    def end(self):
        self.ask("disconnect", terminateDebuggee=True)
        status = self.adapter.wait(timeout=LIMIT_S)
        assert status == 0, "status %d" % status

    def nothing_odd(self, *numbers):
        """Nothing was told of the process's end, nor of breakpoints but the user's."""
        for event in self.events:
            assert event["event"] not in ("exited", "terminated", "stopped", "no message"), event
            if event["event"] == "breakpoint":
                assert event["body"]["breakpoint"]["id"] in numbers, event


def from_main(session):
    number, stop = session.begin("launch", program="/somewhere/else", stopAtBeginningOfMainSubprogram=True)
    assert stop["reason"] == "entry" and session.at()[0] == "main", stop
    watched = session.ask("dataBreakpointInfo", name="global")["dataId"]
    points = session.ask("setDataBreakpoints", breakpoints=[{"dataId": watched, "accessType": "write"}])["breakpoints"]
    assert points[0]["verified"], points
    stop = session.moves("continue")
    assert stop["reason"] == "data breakpoint" and stop["hitBreakpointIds"] == [points[0]["id"]], stop
    assert session.value("global") == "1"
    session.ask("setDataBreakpoints", breakpoints=[])
    stop = session.moves("continue")
    assert stop["hitBreakpointIds"] == [number] and session.at()[0] == "scope", stop
    line = session.at()[1]
    session.moves("next")
    assert session.at() == ("scope", line + 1)
    session.moves("stepBack", granularity="line")
    assert session.at() == ("scope", line)
    session.moves("stepIn", granularity="instruction")
    session.moves("stepBack", granularity="instruction")
    assert session.at() == ("scope", line)
    session.moves("reverseContinue")
    assert session.at()[0] not in ("main", "scope")
    assert "Completed event" in session.says("when")
    session.moves("continue")
    assert session.at()[0] == "scope"
    refused = session.fails("evaluate", expression="set var global = 5", context="repl")
    assert not refused["success"] and "The recording cannot be changed" in refused["message"], refused
    session.says("seek end")
    assert session.stopped()["reason"] == "goto"
    assert session.value("global") == "3"
    assert "8 -> 3" in session.says("last global")
    assert session.stopped()["reason"] == "goto" and session.at()[0] == "main"
    assert "1 -> 8" in session.says("changes global 2")
    assert session.stopped()["reason"] == "goto" and session.value("global") == "8"
    session.moves("restart")
    assert session.at()[0] not in ("main", "scope")
    session.moves("continue")
    assert session.at()[0] == "scope"
    session.nothing_odd(number, points[0]["id"])
    session.end()


def to_a_breakpoint(session):
    number, stop = session.begin("launch")
    assert stop["hitBreakpointIds"] == [number] and session.at()[0] == "scope", stop
    session.nothing_odd(number)
    # While it runs.
    session.ask("setFunctionBreakpoints", breakpoints=[])
    session.ask("reverseContinue", threadId=1)
    session.end()


def attached(session):
    number, stop = session.begin("attach", target="nobody:1")
    assert stop["reason"] == "entry" and session.at()[0] not in ("main", "scope"), stop
    session.moves("continue")
    assert session.at()[0] == "scope"
    session.nothing_odd(number)
    session.ask("terminate")
    session.end()


def writes(session):
    """What the program writes is no part of the protocol."""
    number, _ = session.begin("launch", function="main")
    session.ask("setFunctionBreakpoints", breakpoints=[])
    session.moves("continue")
    session.moves("stepBack", granularity="instruction")
    session.nothing_odd(number)
    session.end()


def main():
    bis, data, calls = sys.argv[1:]
    for tried, trace in ((from_main, data), (to_a_breakpoint, data), (attached, data), (writes, calls)):
        begin = time.monotonic()
        session = Session([bis, "replay", "-i=dap", "-o", "-nx", trace])
        try:
            tried(session)
        except Exception:
            print("\n".join(line for line in session.said if '"module"' not in line), file=sys.stderr)
            raise
        finally:
            session.adapter.terminate()
        print("%s: %.1f s" % (tried.__name__, time.monotonic() - begin))


main()
