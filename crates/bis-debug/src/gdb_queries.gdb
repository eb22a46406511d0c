# Questions about a recording, made of gdb's own commands and of those in `gdb_script.gdb`, which comes before
# this: who changed a value last, all that has changed it, and what wrote a line of output.

python
class BisAlone:
    """No breakpoint of the user's stops the program meanwhile, and `back` does not lead to where it stops. They are enabled again when
    the program stands where it is to stay: at the begin of everything gdb may not find the variables of watchpoints, and refuses each
    move then. gdb shows each stop but those at a silent breakpoint: there is one where the user was, which the server tells of when a
    search has found nothing, or the program is back."""

    enabled = ()
    here = None

    def __init__(self):
        self.unlocked = BisUnlocked()

    def __enter__(self):
        self.unlocked.__enter__()
        BisSeen.is_told = False
        BisSeen.is_searching = True
        self.enabled = [point for point in gdb.breakpoints() if point.enabled]
        for point in self.enabled:
            point.enabled = False
        address = int(bis_ask("search"), 16)
        with gdb.with_parameter("language", "c"):
            self.here = gdb.Breakpoint("*%#x" % address, internal=True)
        self.here.silent = True

    def __exit__(self, *_):
        BisSeen.is_told = True

    def end(self, place):
        """Back to this place, if it is one, and as it was."""
        try:
            if place is not None:
                bis_return(place)
        finally:
            BisSeen.is_searching = False
            self.unlocked.__exit__()
            bis_ask("search end")
            if self.here is not None and self.here.is_valid():
                self.here.delete()
            for point in self.enabled:
                if point.is_valid():
                    BisWatched.enable(point)
            for told in BisSeen.searched:
                told()


class BisChange:
    """One change of a watched value: where it happened, and what it made of the value. Memory that is shared may have been changed by
    another process, which the server tells of; the thread here is the one that had it changed when it came back from this call."""

    OTHER = re.compile(r"^bis: process (\d+) has changed it", re.MULTILINE)

    def __init__(self, before, after, told):
        self.before, self.after = before, after
        other = self.OTHER.search(told)
        self.other = other.group(1) if other else None
        self.where = bis_where()
        self.place = gdb.convenience_variable("_bis_place").string()
        thread = gdb.selected_thread()
        self.thread = 0 if thread is None else thread.num

    def __str__(self):
        who = "thread %d" % self.thread
        if self.other is not None:
            who = "process %s, seen by %s" % (self.other, who)
        return "%s -> %s, by %s in %s" % (self.before, self.after, who, self.where)


class BisWatch:
    """A value in memory, watched at its address, whatever is in scope where it changes."""

    def __init__(self, expression):
        try:
            value = gdb.parse_and_eval(expression)
            value.fetch_lazy()
        except gdb.error as error:
            raise gdb.GdbError(str(error))
        if value.address is None or value.is_optimized_out:
            raise gdb.GdbError("%s is not in memory: only what has an address can be watched." % expression)
        self.expression = expression
        self.kind, self.address = value.type, int(value.address)
        bytes_there = "*(unsigned char (*)[%d]) %#x" % (self.kind.sizeof, self.address)
        with gdb.with_parameter("language", "c"):
            self.point = gdb.Breakpoint(
                bytes_there, type=gdb.BP_WATCHPOINT, wp_class=gdb.WP_WRITE, internal=True)
        self.point.silent = True
        self.stop = None

    def value(self):
        kind = self.kind.unqualified()
        return gdb.Value(self.address).cast(kind.pointer()).dereference().format_string(max_elements=16)

    def stopped(self, event):
        self.stop = event

    def back(self):
        """Goes back to the change before; None where there is none."""
        after = self.value()
        self.stop = None
        gdb.events.stop.connect(self.stopped)
        try:
            told = bis_execute("reverse-continue", to_string=True)
        except gdb.MemoryError:
            # It was not mapped yet.
            return None
        finally:
            gdb.events.stop.disconnect(self.stopped)
        if isinstance(self.stop, gdb.SignalEvent) and self.stop.stop_signal == "SIGINT":
            raise gdb.GdbError("Interrupted.")
        is_hit = isinstance(self.stop, gdb.BreakpointEvent) and self.point in self.stop.breakpoints
        try:
            return BisChange(self.value(), after, told) if is_hit else None
        except gdb.MemoryError:
            # It is about to be mapped.
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.point.is_valid():
            self.point.delete()


def bis_return(place):
    """Back to where the user was, without a word."""
    word, _, rest = bis_ask("seek " + place).rstrip("\n").partition(" ")
    if word == "load":
        bis_load(rest)
    elif word == "go":
        bis_execute("reverse-stepi", to_string=True)
        bis_reads_libraries()
    BisWatched.jumped()


def bis_here():
    place = gdb.convenience_variable("_bis_place")
    if not BisTarget.is_bis() or place is None or place.type.code == gdb.TYPE_CODE_VOID:
        raise gdb.GdbError("This needs a recording: start gdb with `bis replay`.")
    return place.string()


class BisLast(gdb.Command):
    """Go back to the last change of a value.
Usage: last EXPR
The program stands in front of the instruction that changed it; the same again leads to the change before. Breakpoints do not
stop it on the way. EXPR is something in memory: a variable, *POINTER, a field, an element."""

    def __init__(self):
        super().__init__("last", gdb.COMMAND_RUNNING, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        if not argument.strip():
            raise gdb.GdbError("Usage: last EXPR")
        place = bis_here()
        change, alone = None, BisAlone()
        try:
            with alone, BisWatch(argument.strip()) as watch:
                change = watch.back()
        finally:
            alone.end(place if change is None else None)
        if change is None:
            raise gdb.GdbError("%s was not changed between the begin of the process and here." % argument.strip())
        bis_seen()
        gdb.write("%s: %s\n" % (argument.strip(), change))
        bis_execute("frame")


class BisChanges(gdb.Command):
    """List the last changes of a value, the latest first, and stay here.
Usage: changes EXPR [N]
Each has its place: `seek PLACE` leads in front of it. N is how many are wanted at most (10)."""

    def __init__(self):
        super().__init__("changes", gdb.COMMAND_RUNNING, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        words = argument.split()
        count = 10
        if len(words) > 1 and words[-1].isdigit():
            count = int(words.pop())
        if not words or count == 0:
            raise gdb.GdbError("Usage: changes EXPR [N]")
        expression = " ".join(words)
        place = bis_here()
        shown, alone = 0, BisAlone()
        try:
            with alone, BisWatch(expression) as watch:
                while shown < count:
                    change = watch.back()
                    if change is None:
                        break
                    shown += 1
                    gdb.write("%s\n    seek %s\n" % (change, change.place))
        finally:
            alone.end(place)
        if shown == 0:
            gdb.write("%s was not changed between the begin of the process and here.\n" % expression)


class BisWritten(gdb.Command):
    """List the lines that the program wrote to its standard output and error, with the events that wrote them.
Usage: written [TEXT]
With TEXT, only lines that have it; the event is the one that wrote its begin. `seek EVENT` leads there, in another process after
`process PID`. All processes are replayed for this once more."""

    def __init__(self):
        super().__init__("written", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        gdb.write(bis_ask("written " + argument.encode().hex()))


BisLast()
BisChanges()
BisWritten()
end
