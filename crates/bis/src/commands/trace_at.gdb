# What gdb does for `bis replay --trace-at`. BIS_POINTS is in front of it: a list of [LOCATION, EXPRESSION...].
#
# At the first arrival at a location its expressions are evaluated here, as `print` would show them. If all of them are numbers or
# pointers, a dprintf takes over whose text the server prints, without a stop; else the program stops for each arrival, unseen.
python
import sys

import gdb

# In gdb's words, and in those of the server's printf: by a number's size and whether it has a sign.
BIS_CONVERSIONS = {(2, True): "%hd", (2, False): "%hu", (4, True): "%d", (4, False): "%u", (8, True): "%ld", (8, False): "%lu"}


def bis_say(text):
    """A line of the trace: the server prints it, in its order with what the program writes."""
    bis_ask("say " + text.encode(errors="surrogateescape").hex() + bis_thread())


class BisTracePoint(gdb.Breakpoint):
    def __init__(self, location, expressions):
        super().__init__(location, internal=True)
        self.silent = True
        self.place, self.expressions = location, expressions
        self.has_come = False
        # An address has a breakpoint also where there is no memory for one.
        self.is_nowhere = location.startswith("*") and not self.has_memory()

    def has_memory(self):
        try:
            for location in self.locations:
                gdb.selected_inferior().read_memory(location.address, 1)
            return True
        except gdb.error:
            return False

    def value(self, expression):
        try:
            value = gdb.parse_and_eval(expression)
            value.fetch_lazy()
            return value
        except gdb.error as error:
            return "<%s>" % error

    def arrive(self):
        values = [self.value(expression) for expression in self.expressions]
        shown = [v if isinstance(v, str) else v.format_string(symbols=False) for v in values]
        bis_say(self.text(shown))
        if not self.has_come:
            self.has_come = True
            self.hand_over(values)

    def text(self, shown):
        return self.place + ":" * bool(shown) + ",".join(" %s = %s" % pair for pair in zip(self.expressions, shown)) + "\n"

    def hand_over(self, values):
        """To the server, if it can print this."""
        conversions = [self.conversion(value) for value in values]
        if None in conversions or len(self.locations) != 1:
            return
        escaped = [expression.replace("%", "%%") for expression in self.expressions]
        text = self.place.replace("%", "%%") + ":" * bool(values)
        text += ",".join(" %s = %s" % pair for pair in zip(escaped, conversions))
        text = '"%s\\n"' % text.replace("\\", "\\\\").replace('"', '\\"')
        call = ",".join([text] + ["(%s)" % expression for expression in self.expressions])
        try:
            gdb.execute("maint agent-printf " + call, to_string=True)
            gdb.execute("dprintf %s,%s" % (self.place, call), to_string=True)
        except gdb.error:
            return
        # One that is there still, even disabled, would keep gdb from leaving the other to the server.
        self.delete()

    @staticmethod
    def conversion(value):
        if isinstance(value, str):
            return None
        kind = value.type.strip_typedefs()
        if kind.code == gdb.TYPE_CODE_INT:
            return BIS_CONVERSIONS.get((kind.sizeof, kind.is_signed))
        if kind.code == gdb.TYPE_CODE_PTR:
            target = kind.target().strip_typedefs()
            is_plain = target.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_PTR)
            return "0x%lx" if is_plain or target.code == gdb.TYPE_CODE_INT and target.sizeof > 1 else None
        return None


class BisTrace:
    """What has stopped the program last."""

    def __init__(self):
        self.event = None
        gdb.events.stop.connect(self.stopped)

    def stopped(self, event):
        self.event = event

    def run(self):
        for setting in ("pagination off", "confirm off", "width 0", "breakpoint pending on", "dprintf-style agent",
                        "print inferior-events off", "print thread-events off"):
            gdb.execute("set " + setting)
        points = []
        for location, *expressions in BIS_POINTS:
            points.append(BisTracePoint(location, expressions))
        place = None
        while gdb.selected_thread() is not None:
            self.event = None
            gdb.execute("continue", to_string=True)
            if isinstance(self.event, gdb.BreakpointEvent):
                for point in self.event.breakpoints:
                    if isinstance(point, BisTracePoint):
                        point.arrive()
            elif isinstance(self.event, gdb.SignalEvent):
                # The recording goes on behind a signal. What stands still is a replay that cannot go on.
                before, place = place, bis_ask("stopped" + bis_thread())
                if place == before:
                    return 1
            else:
                break
        missing = [point.place for point in points if not point.has_come and (point.is_nowhere or point.pending)]
        for place in missing:
            sys.__stderr__.write("bis: there is no place %s in what this process has executed\n" % place)
        return 2 if missing else 0


try:
    status = BisTrace().run()
except gdb.error as error:
    sys.__stderr__.write("bis: %s\n" % error)
    status = 2
gdb.execute("kill", to_string=True)
gdb.execute("quit %d" % status)
end
