# The commands that gdb has in `bis replay` (and after `source <(bis gdbinit)`), for gdb 13 and newer, with Python.
#
# What this script asks of the server, all of it by the packet qRcmd, as `monitor` does. An answer is one packet, text in
# UTF-8 that ends with a newline, and no console output (the packet O) comes before it; the server never answers with an
# error packet, because gdb hides what is in it. A request that fails is answered `error: TEXT`, and nothing has changed
# then.
#
# WHO IS THERE
#   bis                      -> `bis VERSION`. The script asks this once for each connection; where something else is
#                               answered, it stays silent. Without it, a user's session with another server would suffer.
#
# LOOKING: these never move the program. The answer is shown as it is. `thread TID`, at the end, is the thread that is
# selected in gdb, which does not always tell the server; without it, the thread that stopped last is meant.
#   when [thread TID]        -> `Completed event: N`; the last word is the number (rr's clients rely on that)
#   when-ticks [thread TID]  -> `Current tick: N`
#   when-tid [thread TID]    -> `Current tid: N`
#   when-end                 -> the place of the end of the process
#   elapsed-time             -> seconds of the recording that have passed here, as `Elapsed Time (s): S`
#   info recording           -> lines for people
#   process                  -> the processes of the recording, a line for each, the current one marked
#   checkpoint WHERE         -> `Checkpoint N at WHERE`: keeps the current place; WHERE is free text that may be empty
#   delete checkpoint N      -> `Deleted checkpoint N.`
#   say TEXT [thread TID]    -> `ok`: shows TEXT (bytes as hexadecimal) as if a breakpoint's command had printed it
#   written [TEXT]           -> lines for people: what the program wrote that has TEXT (bytes as hexadecimal), with the events that
#                               wrote it. It takes a replay of all.
#   discard N                -> the same as `delete checkpoint N`
#   checkpoint-interval off|N [seconds]|N events -> `ok`: from here on, checkpoints are made by themselves so often
#   info checkpoints         -> `ID<tab>WHEN<tab>WHERE`, then a line for each; or `No checkpoints.`
#
# MOVING: seek PLACE, back [N], forward [N], restart N, rollback [N], process PID|PROGRAM. The request itself does not move anything. It arms a
# target, and the server answers at once, with one of
#   go PLACE                 the target is in the memory of the present program. The next resume of any kind (vCont, bc,
#                            bs; one step or more, of any thread) leads there, forwards or backwards as needed, and the
#                            stop reply is T00 with the thread that is current there. Breakpoints on the way do not
#                            count. An interrupt on the way stops where that is possible, with T02, and forgets the target.
#                            Then `libraries` tells whether the libraries that are mapped there are others than where the jump
#                            began: `same`, `others`, or `moved` (one of a name that gdb knows is elsewhere; gdb would leave it
#                            where it was). gdb asks for them only where the program stops as it loads one.
#   load PATH                the target is in another program or process, whose executable PATH is. The next vRun,
#                            whatever its arguments, begins there.
#   here                     it is where we are; nothing is armed.
# A further request replaces the target. A vRun while a target is armed by `go` leads there, too: that is how one moves
# when the process has ended and no thread is left to resume.
# Why so: gdb reads registers, threads and memory anew after a resume, and so does everything that is built on gdb; a
# stop is told to editors; and ^C works meanwhile. A request that moved the program by itself would leave gdb with what it
# remembers. T00 is a stop that gdb always shows, whatever it was doing. This script resumes by `bs`, because a stop in
# another thread than the one that gdb steps over a breakpoint is an assertion failure in gdb 13; a user who arms a target
# by `monitor seek` and continues where a breakpoint is meets it, unless the thread is the same.
#
# vRun;;ARG (gdb's `run ARG`) begins anew: at event ARG, at checkpoint N for `cN`, at the begin without ARG. Where ARG is no such
# place, the server says so (the packet O), and the program stays where it is. After the
# stop reply to vRun, gdb (and Delve) sends a vCont;c, which is answered by T00 at the same place at once. What comes
# before it, vKill, is answered by OK and ends nothing.
#   begins stopped           -> `ok`: behind the next vRun comes no vCont, because it is that of `starti`.
#
# GOING BACK: gdb names no thread with a step back (bs) where it lets all of them go.
#   means thread TID         -> `ok`: the next step back is one of this thread. Without it, of the one that stopped last.
#
# TOLD AT EACH STOP that a user sees:
#   stopped [thread TID]     -> `event N` and `place PLACE`, on a line each. The server puts the place into the history of
#                            `back` and `forward`, behind the present one, unless it is the present one.
#
# COPIES. gdb calls functions in a copy of the program, and looks at what they have left, by packets like all others.
#   prompt                   -> `left`: going backwards has left the libraries behind, and `libraries` (above) answers `moved`.
#                            Or `same`, or `gone`: a copy in which no call is going on has been thrown away, and what gdb
#                            remembers of memory with it. Behind that, lines for people: what gdb wanted to write and the server
#                            has refused, which gdb tells as if nothing were mapped there. Sent before each prompt, and at each stop that a
#                            user sees: in a script, no prompt comes before the next command. As `prompt shown` where there is one: an interrupt that came
#                            when the program had just stopped for something else is then of no use any more.
#   divert [thread TID]      -> lines for people: what is seen from now on is a copy of the program, which may be written to.
#   divert end               -> `go PLACE`, as above: the next resume leads out of the copy.
#
# WATCHING ON A CONDITION. gdb sends conditions of breakpoints, and keeps those of watchpoints to itself.
#   watch-if ADDR LEN [CODE...]
#                            -> `ok`: from now on, a write watchpoint (Z2) of LEN bytes at ADDR (hexadecimal both), or one within
#                            them for which nothing is said, stops only if one of the agent expressions CODE (bytes as
#                            hexadecimal, as in the cond_list of a Z packet) is not zero; always, if there is none. It is
#                            evaluated right after the write, in the thread that wrote, whichever direction the program
#                            goes. This takes the place of what was said of the same bytes.
#   watch-unless ADDR LEN    -> `ok`: forget it.

# SEARCHING, for what the script shows itself. gdb shows each stop, but for one at a breakpoint that is silent.
#   search                   -> the address (hexadecimal) at which the thread stands that stopped last. From now on, what goes backwards
#                            (bc) stops only where watched bytes change. Where they do not in this program, it ends where it is now,
#                            with a reply as for a breakpoint (swbreak) there, and so does a `seek` that leads here.
#   search end               -> `ok`: as before.

# FORKS. gdb does not say whether it catches them, and a stop at each for nothing would cost searches backwards dearly.
#   catch-forks on|off       -> `ok`: from now on, the server tells of forks and vforks (T05 with `fork` or `vfork`), or not.

python
import re

import gdb

class BisTarget:
    """Which connections lead to bis."""

    known = {}
    catches_forks = False

    @classmethod
    def is_bis(cls):
        connection = gdb.selected_inferior().connection
        if not isinstance(connection, gdb.RemoteTargetConnection):
            return False
        key = (connection.num, connection.details)
        if key not in cls.known:
            try:
                answer = bis_monitor("bis")
            except (gdb.error, ValueError):
                answer = ""
            cls.known[key] = answer.startswith("bis ")
        return cls.known[key]

    @classmethod
    def forget(cls, event):
        cls.known = {key: value for key, value in cls.known.items() if key[0] != event.connection.num}
        cls.catches_forks = False
        BisConditions.told = {}


def bis_monitor(request):
    """What the server answers. gdb's own command for it does not do: behind each command that Python executes, gdb runs the
    commands of the breakpoint that was hit, so those would begin in the middle of the handler that is told of the stop;
    a `continue` among them never ends then."""
    answer = gdb.selected_inferior().connection.send_packet("qRcmd," + request.encode().hex())
    return bytes.fromhex(answer.decode("ascii")).decode(errors="replace")


def bis_execute(command, to_string=False):
    """Executes a command of gdb's. With `set trace-commands on`, gdb shows each command first, and where the answer is wanted as text,
    that begins with it."""
    if not gdb.parameter("trace-commands"):
        return gdb.execute(command, to_string=to_string)
    gdb.execute("set trace-commands off", to_string=True)
    try:
        return gdb.execute(command, to_string=to_string)
    finally:
        gdb.execute("set trace-commands on", to_string=True)


def bis_ask(request):
    """What the server answers; its refusals are errors of the command."""
    if not BisTarget.is_bis():
        raise gdb.GdbError("This needs a recording: start gdb with `bis replay`.")
    answer = bis_monitor(request)
    if answer.startswith("error: "):
        raise gdb.GdbError(answer[len("error: "):].rstrip())
    return answer


def bis_thread():
    thread = gdb.selected_thread()
    return "" if thread is None else " thread %d" % (thread.ptid[1] or thread.ptid[0])


def bis_where():
    """The selected frame, for people."""
    try:
        frame = gdb.selected_frame()
        line = frame.find_sal()
    except gdb.error:
        return ""
    name = frame.name() or hex(frame.pc())
    return name if line.symtab is None else "%s at %s:%d" % (name, line.symtab.filename, line.line)


def bis_load(path):
    """Goes on in another program or process. The symbols have to be its own before gdb looks at its memory."""
    asked = gdb.parameter("confirm")
    bis_execute("set confirm off")
    try:
        BisGone.look()
        bis_execute("file " + path.replace("\\", "\\\\").replace(" ", "\\ "), to_string=True)
        BisGone.look(is_settled=False)
        with BisNoSignal():
            bis_execute("run")
        BisConditions.moved()
    finally:
        bis_execute("set confirm " + ("on" if asked else "off"))


class BisNoSignal:
    """A move is told of as T00, and gdb takes that for a signal that `catch signal` catches where it names none. So such a catchpoint is
    disabled meanwhile."""

    moves = 0

    def __enter__(self):
        BisNoSignal.moves += 1
        self.disabled = [
            point for point in gdb.breakpoints()
            if point.type == gdb.BP_CATCHPOINT and point.enabled and self.catches_all(point)]
        for point in self.disabled:
            point.enabled = False

    def __exit__(self, *_):
        BisNoSignal.moves -= 1
        for point in self.disabled:
            if point.is_valid():
                point.enabled = True

    @staticmethod
    def catches_all(point):
        """gdb shows it in its list only."""
        try:
            text = bis_execute("info breakpoints %d" % point.number, to_string=True)
        except gdb.error:
            return False
        return "<standard signals>" in text or "<any signal>" in text


class BisUnlocked:
    """A move may lead to any thread, and with `set scheduler-locking`, gdb fails an assertion of its own where one stops that it has not
    let go."""

    def __enter__(self):
        self.locked = gdb.parameter("scheduler-locking")
        self.set("off")

    def __exit__(self, *_):
        self.set(self.locked)

    def set(self, mode):
        if self.locked in ("on", "step"):
            bis_execute("set scheduler-locking " + mode, to_string=True)


class BisGone:
    """Breakpoints whose function another program has not: gdb disables them there, tells nobody, and leaves them so where the function
    is back. They are enabled again then. What the user disables stays disabled, which gdb tells of (breakpoint_modified), and so does what
    `enable once` has let stop once."""

    KINDS = tuple(getattr(gdb, name) for name in ("BP_BREAKPOINT", "BP_HARDWARE_BREAKPOINT") if hasattr(gdb, name))
    # What is enabled by the user's will, with what it was when that was seen; and which of those gdb has disabled.
    wanted = {}
    gone = set()

    @staticmethod
    def seen(point):
        return (point.pending, point.condition, point.commands, point.ignore_count, point.thread, point.hit_count)

    @classmethod
    def modified(cls, point):
        """By the user, or by gdb, which has found its place elsewhere. Nothing else of it has changed where the user disables it."""
        if point.number < 0 or point.type not in cls.KINDS or BisSeen.is_searching:
            return
        seen = cls.seen(point)
        if point.enabled:
            cls.gone.discard(point.number)
            cls.wanted[point.number] = seen
        elif cls.wanted.get(point.number) == seen:
            cls.deleted(point)
        elif point.number in cls.wanted:
            cls.wanted[point.number] = seen

    @classmethod
    def deleted(cls, point):
        cls.wanted.pop(point.number, None)
        cls.gone.discard(point.number)

    @classmethod
    def look(cls, is_settled=True):
        """While gdb reads a program, what it has disabled may still have its place in the one before."""
        if not BisTarget.known or BisSeen.is_searching:
            return
        for point in gdb.breakpoints():
            if point.number < 0 or point.type not in cls.KINDS:
                continue
            if point.enabled:
                cls.wanted[point.number] = cls.seen(point)
            elif point.number not in cls.wanted:
                continue
            elif point.pending:
                cls.gone.add(point.number)
                cls.wanted[point.number] = cls.seen(point)
            elif point.number in cls.gone:
                point.enabled = True
            elif is_settled:
                cls.deleted(point)


class BisWatched:
    """What gdb has seen of watched values. It keeps the value that it has seen last, shows it as the old one at the next change, and
    takes no heed of a change to just that. Where a jump has led elsewhere, the value is another one: gdb is made to look again, which
    it does where a watchpoint is enabled."""

    known = {}
    languages = {}
    stale = set()
    off = set()
    LOCATION = "-location "

    @classmethod
    def created(cls, point):
        if point.type not in (gdb.BP_WATCHPOINT, gdb.BP_HARDWARE_WATCHPOINT) or point.expression is None:
            return
        frame = cls.frame_of(point.expression)
        cls.known[point.number] = (frame, None if frame else cls.address(point.expression))
        cls.languages[point.number] = gdb.current_language() if hasattr(gdb, "current_language") else gdb.parameter("language")

    @classmethod
    def deleted(cls, point):
        cls.known.pop(point.number, None)
        cls.languages.pop(point.number, None)
        cls.stale.discard(point.number)
        cls.off.discard(point.number)

    @classmethod
    def jumped(cls):
        cls.stale = set(cls.known)
        cls.look_again()

    @classmethod
    def look_again(cls):
        """Where the expression does not mean what it meant, this waits for another stop: gdb would watch something else from then on,
        or delete the watchpoint because its function does not run."""
        for point in gdb.breakpoints() if cls.stale else ():
            if point.number not in cls.stale or not cls.means_the_same(point):
                continue
            cls.stale.discard(point.number)
            if point.enabled or point.number in cls.off:
                point.enabled = False
                cls.enable(point)

    @classmethod
    def enable(cls, point):
        """gdb parses the expression anew, in the language of where the program stands. Where it cannot, as it cannot in front of the
        program's own code at times, another stop is waited for."""
        number = point.number
        try:
            with gdb.with_parameter("language", cls.languages.get(number, "auto")):
                point.enabled = True
            cls.off.discard(number)
        except (gdb.error, RuntimeError):
            cls.off.add(number)
            cls.stale.add(number)

    @classmethod
    def means_the_same(cls, point):
        frame, address = cls.known[point.number]
        if point.expression.startswith(cls.LOCATION):
            return True
        if frame is not None:
            return frame.is_valid()
        return address is not None and cls.address(point.expression) == address

    @classmethod
    def address(cls, expression):
        try:
            address = gdb.parse_and_eval(expression.removeprefix(cls.LOCATION)).address
            return None if address is None else int(address)
        except (gdb.error, RuntimeError):
            return None

    @staticmethod
    def frame_of(expression):
        """The selected frame, if something in the expression is a variable of its function's."""
        try:
            frame = gdb.selected_frame()
            block = frame.block()
        except (gdb.error, RuntimeError):
            return None
        for name in re.findall(r"[A-Za-z_]\w*", expression):
            symbol = gdb.lookup_symbol(name, block)[0]
            if symbol is not None and symbol.needs_frame:
                return frame
        return None


def bis_reads_libraries():
    """A jump has led to where other libraries are mapped: gdb reads them anew."""
    there = "same" if gdb.selected_thread() is None else bis_monitor("libraries").strip()
    if there == "same":
        return False
    # gdb keeps those of the same name. And where the dynamic linker is before its list has anything, gdb knows from the begin of the
    # session, until it has to forget all.
    if there == "moved":
        bis_execute("nosharedlibrary", to_string=True)
    bis_execute("sharedlibrary", to_string=True)
    if bis_has_no_library() or bis_hears_of_no_library():
        # gdb looks for the dynamic linker as at the begin of the session, and makes its breakpoint in there anew.
        bis_execute("set sysroot " + gdb.parameter("sysroot"), to_string=True)
    return True


def bis_has_no_library():
    """gdb 13 forgets the dynamic linker with the others, and does not find it again before that has a list. The list of what there is has a
    head and a line for each; there is one line where there is none."""
    return len(bis_execute("info sharedlibrary", to_string=True).splitlines()) < 2


def bis_hears_of_no_library():
    """gdb 18 takes its breakpoint away with the dynamic linker that it forgets, and would be told of no library that is loaded."""
    table = bis_execute("maint info breakpoints", to_string=True)
    return re.search(r"^-[0-9]+ +shlib events .*<PENDING>", table, re.MULTILINE) is not None


def bis_move(request):
    answer = bis_ask(request).rstrip("\n")
    word, _, rest = answer.partition(" ")
    if word == "load":
        bis_load(rest)
    elif word == "go":
        if gdb.selected_thread() is None:
            with BisNoSignal():
                bis_execute("run")
            BisWatched.jumped()
            return
        # Not a step forwards: where a breakpoint is, gdb steps over it first, and fails an assertion of its own (gdb 13)
        # if the program then stops in another thread. Backwards it steps over those alone at which other threads are, and the
        # server lets it believe that.
        with BisNoSignal(), BisUnlocked():
            bis_execute("reverse-stepi")
        if bis_reads_libraries():
            # Where it stands has a name now.
            bis_execute("frame")
        BisWatched.jumped()
    else:
        gdb.write("This is the place.\n" if word == "here" else answer + "\n")


class BisLook(gdb.Command):
    """A command that shows what the server answers."""

    def __init__(self, name, doc, of_thread=False):
        self.__doc__ = doc
        self.name, self.of_thread = name, of_thread
        super().__init__(name, gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        words = [self.name] + argument.split()
        gdb.write(bis_ask(" ".join(words) + (bis_thread() if self.of_thread else "")))


class BisPlace(gdb.Command):
    """Show the place where this is, for `seek`, in any session on the recording.
It is the text in $_bis_place, which gdb shows as numbers in some languages (Rust, Pascal)."""

    def __init__(self):
        super().__init__("when-place", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        for line in bis_ask("where" + bis_thread()).splitlines():
            name, _, value = line.partition(" ")
            if name == "place":
                gdb.write(value + "\n")


class BisMove(gdb.Command):
    """A command after which the program stands elsewhere."""

    def __init__(self, name, doc, needs=None):
        self.__doc__ = doc
        self.name, self.needs = name, needs
        super().__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        if self.needs and not argument.strip():
            raise gdb.GdbError("%s needs %s." % (self.name, self.needs))
        bis_move(" ".join([self.name] + argument.split()))


class BisCheckpoint(gdb.Command):
    """Keep this place, to come back to it with `restart N`.
Usage: checkpoint [NOTE]
The note is shown by `info checkpoints`; without one, it is where the program stands."""

    def __init__(self):
        super().__init__("checkpoint", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        gdb.write(bis_ask("checkpoint " + (argument.strip() or bis_where())))


class BisInterval(gdb.Parameter):
    """How often checkpoints are made by themselves: as N seconds, N events, or off.
They are made at the first event behind that, where the program comes for the first time, and `info checkpoints` lists them.
Where their copies of the process take more memory than checkpoints may, the oldest are discarded."""

    set_doc = "Set how often checkpoints are made by themselves."
    show_doc = "Show how often checkpoints are made by themselves."

    def __init__(self):
        super().__init__("checkpoint-interval", gdb.COMMAND_RUNNING, gdb.PARAM_STRING)
        self.value = self.before = "off"

    def get_set_string(self):
        value = (self.value or "off").strip()
        try:
            bis_ask("checkpoint-interval " + value)
        except gdb.GdbError:
            self.value = self.before
            raise
        self.before = self.value = value
        return ""

    def get_show_string(self, value):
        return "Checkpoints are made by themselves: %s." % value


class BisDivert(gdb.Command):
    """Try something out, in a copy of the program.
Usage: divert, and divert end
In the copy, variables and registers can be set, and the program runs on from here by what it finds, not by what was
recorded: it computes, allocates memory and writes to its standard output, has no files, and other threads stand still. `divert end`
throws the copy away, and so does whatever leads elsewhere: seek, back, restart, and all that goes backwards."""

    def __init__(self):
        super().__init__("divert", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        request = " ".join(["divert"] + argument.split())
        if argument.strip():
            bis_move(request)
        else:
            gdb.write(bis_ask(request + bis_thread()))


class BisProcess(gdb.Command):
    """Go to another process of the recording, or list them.
Usage: process [PID|PROGRAM]
A program's name stands for the first process that executed it. The process is entered where it stood at this moment of the recording, in the order of the events; where it did not
live then, at its begin or end."""

    def __init__(self):
        super().__init__("process", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        if argument.strip():
            bis_move("process " + argument.strip())
        else:
            gdb.write(bis_ask("process"))


# The agent expressions of the remote protocol: what gdb calls an operation, its byte, and the bytes of its operand.
BIS_OPERATIONS = {
    "add": (0x02, 0), "sub": (0x03, 0), "mul": (0x04, 0), "div_signed": (0x05, 0), "div_unsigned": (0x06, 0),
    "rem_signed": (0x07, 0), "rem_unsigned": (0x08, 0), "lsh": (0x09, 0), "rsh_signed": (0x0a, 0),
    "rsh_unsigned": (0x0b, 0), "log_not": (0x0e, 0), "bit_and": (0x0f, 0), "bit_or": (0x10, 0), "bit_xor": (0x11, 0),
    "bit_not": (0x12, 0), "equal": (0x13, 0), "less_signed": (0x14, 0), "less_unsigned": (0x15, 0), "ext": (0x16, 1),
    "ref8": (0x17, 0), "ref16": (0x18, 0), "ref32": (0x19, 0), "ref64": (0x1a, 0), "if_goto": (0x20, 2),
    "goto": (0x21, 2), "const8": (0x22, 1), "const16": (0x23, 2), "const32": (0x24, 4), "const64": (0x25, 8),
    "reg": (0x26, 2), "end": (0x27, 0), "dup": (0x28, 0), "pop": (0x29, 0), "zero_ext": (0x2a, 1), "swap": (0x2b, 0),
    "pick": (0x32, 1), "rot": (0x33, 0),
}


def bis_plain(condition):
    """The condition with gdb's own variables ($name, $1) replaced by what they hold: the server does not have them."""
    def held(match):
        name = match.group(1)
        value = gdb.history(int(name)) if name.isdigit() else gdb.convenience_variable(name)
        return match.group(0) if value is None else "((%s) %d)" % (value.type.unqualified(), int(value))
    return re.sub(r"\$(\w+)", held, condition)


def bis_code(condition):
    """The agent expression for a condition, as hexadecimal. gdb shows it only as a listing: `OFFSET OPERATION OPERAND`."""
    code = bytearray()
    try:
        condition = bis_plain(condition)
        listing = bis_execute("maint agent-eval " + condition, to_string=True)
    except gdb.error as error:
        raise gdb.GdbError(str(error))
    for line in listing.splitlines():
        words = line.split()
        if len(words) < 2 or not words[0].isdigit():
            continue
        if words[1] not in BIS_OPERATIONS:
            raise gdb.GdbError("The server cannot evaluate this condition (%s)." % words[1])
        if words[1] == "reg" and "$" not in condition:
            raise gdb.GdbError(
                "The condition has local variables, which only their function knows. Give their address, like "
                "*(int *) 0x7ffe0010, or use `watch EXPR if COND`, where gdb evaluates it.")
        byte, size = BIS_OPERATIONS[words[1]]
        operand = int(words[2]) if size else 0
        code.append(byte)
        code += (operand & ((1 << 8 * size) - 1)).to_bytes(size, "big")
    if not code:
        raise gdb.GdbError("gdb does not say what this condition is.")
    return code.hex()


def bis_command_line():
    """The words that gdb was started with."""
    with open("/proc/self/cmdline", "rb") as line:
        return line.read().decode(errors="replace").split("\0")


# In C, by their size.
BIS_WORDS = {1: "char", 2: "short", 4: "int", 8: "long"}


class BisWatchIf(gdb.Command):
    """Watch a value, and stop where it is changed and a condition holds.
Usage: watch-if EXPR COND, or watch-if EXPR if COND
EXPR without spaces in the first form. The condition is evaluated by the server, right after the value was changed:
quick also where it hardly ever holds. With `watch EXPR if COND`, gdb evaluates it at each change."""

    # For each watchpoint what the server knows it by, and its value.
    watched = {}
    # With MI and DAP, it is gdb that tells why a stop is.
    is_shown = not any(re.fullmatch("-i|--?i(nterpreter)?=.*|--?interpreter", word) for word in bis_command_line())

    def __init__(self):
        super().__init__("watch-if", gdb.COMMAND_BREAKPOINTS, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        argument = argument.strip()
        expression, _, condition = argument.partition(" if ") if " if " in argument else argument.partition(" ")
        if not condition.strip():
            raise gdb.GdbError("Usage: watch-if EXPR COND")
        try:
            value = gdb.parse_and_eval(expression)
        except gdb.error as error:
            raise gdb.GdbError(str(error))
        if value.address is None:
            raise gdb.GdbError("%s is not in memory." % expression)
        condition = condition.strip()
        where = (int(value.address), value.type.sizeof)
        code = bis_code(condition)
        BisConditions.begins(where, code)
        try:
            self.watch(expression, *where)
        except gdb.error as error:
            BisConditions.is_making = False
            BisConditions.tell()
            raise gdb.GdbError(str(error))
        point = max(gdb.breakpoints(), key=lambda point: point.number)
        self.watched[point.number] = (where, value.type, int(value.address))
        BisConditions.created_with(point, where, code, bis_plain(condition))
        point.silent = self.is_shown

    @staticmethod
    def watch(expression, address, size):
        """What -location makes of an expression, Go and Fortran cannot read."""
        try:
            bis_execute("watch -location " + expression)
        except gdb.error:
            with gdb.with_parameter("language", "c"):
                bis_execute("watch -location *(%s *) %#x" % (BIS_WORDS.get(size, "char [%d]" % size), address))

    @classmethod
    def stopped(cls, event):
        """Shows a stop as gdb does, but without the old value: gdb has that of the last stop, and the server has passed over changes
        since."""
        points = event.breakpoints if cls.is_shown and isinstance(event, gdb.BreakpointEvent) else ()
        is_ours = all(point.silent and point.number in cls.watched for point in points)
        for point in points:
            # gdb names those as well whose condition does not hold.
            holds = BisConditions.holds(point.number)
            if point.number in cls.watched and point.silent and (is_ours if holds is None else holds):
                _, kind, address = cls.watched[point.number]
                try:
                    value = gdb.Value(address).cast(kind.unqualified().pointer()).dereference().format_string()
                except gdb.error as error:
                    value = "<%s>" % error
                gdb.write("\nHardware watchpoint %d: %s\n\nNew value = %s\n" % (point.number, point.expression, value))
        if not points or not is_ours:
            return
        if any(point.commands for point in points):
            # A command of gdb's would have those begin here (see bis_monitor).
            gdb.write(bis_where() + "\n")
        else:
            bis_execute("frame")
            bis_execute("display")

    @classmethod
    def deleted(cls, point):
        cls.watched.pop(point.number, None)
        BisConditions.deleted(point)


class BisConditions(gdb.Function):
    """Does the condition of `watch-if` hold?
gdb shows it as the watchpoint's own, by number, so that `condition N` removes it. The server evaluates it; gdb does so only where the
program has stopped for another watchpoint of the same bytes."""

    # By number: the bytes (address, length), the condition as the server has it, and as gdb has it.
    given = {}
    # By number: the bytes of watchpoints for writes that have no condition here; None where these are not known.
    plain = {}
    # What the server was told of bytes: their conditions.
    told = {}
    # One is about to be made, and the server has its condition.
    is_making = False

    def __init__(self):
        super().__init__("_bis_if")

    def invoke(self, number, *_):
        return self.holds(int(number)) is not False

    @classmethod
    def holds(cls, number):
        """None: in front of the write, where the way back leads, nobody can say."""
        if not cls.is_shared(number):
            return True
        if "Reverse" in bis_execute("show exec-direction", to_string=True):
            return None
        try:
            return bool(gdb.parse_and_eval(cls.given[number][2]))
        except gdb.error:
            return True

    @classmethod
    def is_shared(cls, number):
        """Does another watchpoint have some of its bytes?"""
        if number not in cls.given:
            return False
        address, size = cls.given[number][0]
        others = [where for other, (where, _, _) in cls.given.items() if other != number] + list(cls.plain.values())
        return any(where is None or where[0] < address + size and address < where[0] + where[1] for where in others)

    @classmethod
    def begins(cls, where, code):
        """Its watchpoint is about to be made."""
        if cls.told.get(where) is None:
            cls.ask(where, [code])
        cls.is_making = True

    @classmethod
    def created_with(cls, point, where, code, condition):
        cls.plain.pop(point.number, None)
        cls.given[point.number] = (where, code, condition)
        try:
            with gdb.with_parameter("language", "c"):
                point.condition = "$_bis_if(%d)" % point.number
        finally:
            cls.is_making = False
        cls.tell()

    @classmethod
    def created(cls, point):
        if point.type not in (gdb.BP_WATCHPOINT, gdb.BP_HARDWARE_WATCHPOINT) or point.expression is None:
            return
        cls.plain[point.number] = None
        try:
            with gdb.with_parameter("language", BisWatched.languages.get(point.number, "auto")):
                value = gdb.parse_and_eval(point.expression.removeprefix(BisWatched.LOCATION))
            # Of an expression that leads through pointers, gdb watches these, too.
            is_one = point.expression.startswith(BisWatched.LOCATION) or re.fullmatch(r"[\w.]+", point.expression)
            if value.address is not None and is_one:
                cls.plain[point.number] = (int(value.address), value.type.sizeof)
        except (gdb.error, RuntimeError):
            pass
        cls.tell()

    @classmethod
    def modified(cls, point):
        given = cls.given.get(point.number)
        if given is not None and point.condition != "$_bis_if(%d)" % point.number:
            # The user's own condition, or none: a watchpoint like others.
            del cls.given[point.number]
            BisWatchIf.watched.pop(point.number, None)
            cls.plain[point.number] = given[0]
            point.silent = False
        cls.tell()

    @classmethod
    def deleted(cls, point):
        cls.given.pop(point.number, None)
        cls.plain.pop(point.number, None)
        cls.tell(point.number)

    @classmethod
    def tell(cls, deleted=None):
        """Tells the server what it does not know yet."""
        if cls.is_making or not cls.given and not cls.told or not BisTarget.is_bis():
            return
        enabled = {point.number for point in gdb.breakpoints() if point.enabled and point.number != deleted}
        wanted = {}
        for number, (where, code, _) in cls.given.items():
            if number in enabled:
                wanted.setdefault(where, []).append(code)
        for number, plain in cls.plain.items():
            if number in enabled:
                cls.frees(wanted, plain)
        for where in [where for where in cls.told if where not in wanted]:
            del cls.told[where]
            bis_ask("watch-unless %x %x" % where)
        for where, codes in wanted.items():
            if cls.told.get(where) != codes:
                cls.ask(where, codes)

    @classmethod
    def moved(cls):
        """To a process of which the server knows no conditions."""
        cls.told = {}
        cls.tell()

    @classmethod
    def ask(cls, where, codes):
        bis_ask(" ".join(["watch-if %x %x" % where] + codes))
        cls.told[where] = codes

    @staticmethod
    def frees(wanted, plain):
        """A watchpoint without a condition stops at each write to its bytes."""
        if plain is None:
            wanted.update((where, []) for where in wanted)
            return
        address, size = plain
        if any(at <= address and address + size <= at + length for at, length in wanted):
            wanted[plain] = []


class BisForks:
    """Which catchpoints are of forks. gdb shows that in its list only, which takes a command, and at a stop that is not the time for one
    (see BisLate). So it is looked up when a catchpoint is made; of one that was there before this script, at the first prompt."""

    # By number.
    is_fork = {}

    @classmethod
    def created(cls, point):
        cls.look([point])
        bis_catches(point)

    @classmethod
    def look(cls, points):
        for point in points:
            if point.type == gdb.BP_CATCHPOINT and point.number not in cls.is_fork:
                cls.is_fork[point.number] = cls.is_listed(point)

    @staticmethod
    def is_listed(point):
        try:
            words = bis_execute("info breakpoints %d" % point.number, to_string=True).splitlines()[1].split()
            return words[4].rstrip(",") in ("fork", "vfork")
        except (gdb.error, IndexError):
            return False

    @classmethod
    def deleted(cls, point):
        cls.is_fork.pop(point.number, None)
        bis_catches(point, point.number)


def bis_catches(changed, deleted=None):
    """A catchpoint was made, changed or deleted: is the server to tell of forks?"""
    if changed is not None and changed.type != gdb.BP_CATCHPOINT or not BisTarget.is_bis():
        return
    caught = any(
        point.enabled and point.number != deleted and BisForks.is_fork.get(point.number, False)
        for point in gdb.breakpoints())
    if caught != BisTarget.catches_forks:
        bis_ask("catch-forks " + ("on" if caught else "off"))
        BisTarget.catches_forks = caught


class BisExceptions:
    """Catchpoints of exceptions, which gdb 13 leaves in a library that it forgets: at the next stop it looks them up in memory of its own
    that is gone, and is ended by that. So they are disabled while the library is away."""

    disabled = set()
    LIBRARIES = ("libstdc++", "libc++abi")

    @classmethod
    def is_theirs(cls, objfile):
        name = objfile.filename or ""
        return any(library in name for library in cls.LIBRARIES)

    @classmethod
    def freed(cls, event):
        if not BisTarget.known or not cls.is_theirs(event.objfile):
            return
        for point in gdb.breakpoints():
            if point.type == gdb.BP_CATCHPOINT and point.enabled and cls.is_of_exceptions(point):
                point.enabled = False
                cls.disabled.add(point.number)

    @classmethod
    def loaded(cls, event):
        """The library is back. gdb looks for what it catches in all that it has, before the program goes on."""
        if not cls.disabled or not cls.is_theirs(event.new_objfile):
            return
        for point in gdb.breakpoints():
            if point.number in cls.disabled:
                point.enabled = True
        cls.disabled = set()

    @staticmethod
    def is_of_exceptions(point):
        try:
            text = bis_execute("info breakpoints %d" % point.number, to_string=True)
        except gdb.error:
            return False
        return "exception " in text


class BisWatches:
    """Watchpoints of a library's variables by name: gdb 13 keeps what it knew of the names when it forgets the library, which going back over
    a dlopen does, and is mostly ended by that. So they are taken away with the library, and set anew when it is back."""

    gone = []
    # By number: the files whose variables the expression names.
    files = {}
    KINDS = {
        gdb.BP_WATCHPOINT: gdb.WP_WRITE,
        gdb.BP_HARDWARE_WATCHPOINT: gdb.WP_WRITE,
        gdb.BP_READ_WATCHPOINT: gdb.WP_READ,
        gdb.BP_ACCESS_WATCHPOINT: gdb.WP_ACCESS,
    }

    @classmethod
    def freed(cls, event):
        if not BisTarget.known:
            return
        for point in gdb.breakpoints():
            files = cls.files.get(point.number, ())
            if event.objfile.filename in files:
                made = {"type": gdb.BP_WATCHPOINT, "wp_class": cls.KINDS[point.type], "temporary": point.temporary}
                kept = {name: getattr(point, name) for name in cls.KEPT if getattr(point, name)}
                cls.gone.append((point.expression, files, made, kept, point.enabled))
                point.delete()

    # What is not as it is when a watchpoint is made.
    KEPT = ("condition", "commands", "ignore_count", "silent", "thread")

    @classmethod
    def loaded(cls, event):
        for point in [point for point in cls.gone if event.new_objfile.filename in point[1]]:
            cls.gone.remove(point)
            expression, _, made, kept, enabled = point
            try:
                anew = gdb.Breakpoint(expression, **made)
                anew.enabled = enabled
                for name, value in kept.items():
                    setattr(anew, name, value)
            except gdb.error as error:
                gdb.write("bis: the watchpoint on %s could not be set anew: %s\n" % (expression, error))

    @classmethod
    def created(cls, point):
        if point.type in cls.KINDS and point.expression:
            cls.files[point.number] = cls.named(point.expression)

    @classmethod
    def deleted(cls, point):
        cls.files.pop(point.number, None)

    @classmethod
    def all_deleted(cls):
        """A user has deleted breakpoints. Where none is left, those that are away at the moment are meant, too."""
        if not any(point.number > 0 for point in gdb.breakpoints()):
            cls.gone = []

    @staticmethod
    def named(expression):
        """The files in which the names are found, as gdb finds them here; names of members are none of these. What -location has made of
        the expression is an address."""
        if expression.startswith(BisWatched.LOCATION):
            return set()
        try:
            block = gdb.selected_frame().block()
        except (gdb.error, RuntimeError):
            block = None
        files = set()
        for name in re.findall(r"[A-Za-z_]\w*", re.sub(r"(\.|->)\s*[A-Za-z_]\w*", "", expression)):
            try:
                symbol = gdb.lookup_symbol(name, block)[0] if block else gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
            except (gdb.error, RuntimeError):
                continue
            if symbol is not None and symbol.symtab is not None and symbol.is_variable:
                files.add(symbol.symtab.objfile.filename)
        return files


class BisSeen:
    """Does a user see the stops that there are now? Those on the way to an answer are seen by nobody."""

    is_told = True
    # The user's breakpoints are disabled meanwhile.
    is_searching = False
    # What is to be done when a search is over.
    searched = []


class BisLocked:
    """With `set scheduler-locking`, gdb keeps the registers of threads that it has not let go. In a recording they have gone on as they
    did. What has to be known of the thread that stopped comes with the stop; gdb is made to forget the rest."""

    is_stale = False

    @classmethod
    def stopped(cls):
        cls.is_stale = gdb.parameter("scheduler-locking") in ("on", "step")

    @classmethod
    def forget(cls):
        if cls.is_stale:
            cls.is_stale = False
            bis_execute("maintenance flush register-cache", to_string=True)


class BisLate:
    """What is done at a stop by commands of gdb's. Behind each command that Python executes, gdb runs the commands of the breakpoint that
    was hit, which would begin in the middle of the handler that is told of the stop, and a `continue` among them never ends then. So at
    such a stop all that waits, for the next stop or prompt."""

    # What the server has said of copies and of libraries.
    states = set()
    is_late = False

    @classmethod
    def stopped(cls, event):
        points = event.breakpoints if isinstance(event, gdb.BreakpointEvent) else ()
        cls.is_late = any(point.commands for point in points)
        if not cls.is_late:
            cls.do()
            BisWatched.look_again()

    @classmethod
    def prompt(cls):
        cls.do()
        if cls.is_late:
            cls.is_late = False
            BisWatched.look_again()

    @classmethod
    def do(cls):
        BisLocked.forget()
        states, cls.states = cls.states, set()
        if "gone" in states:
            bis_execute("maintenance flush dcache", to_string=True)
        if "left" in states:
            bis_reads_libraries()


def bis_stopped(event):
    if not BisTarget.is_bis():
        return
    BisLocked.stopped()
    bis_catches(None)
    refused = ""
    if BisSeen.is_told:
        # In a script, and for editors, no prompt comes before the next command.
        refused = bis_catches_up()
    BisLate.stopped(event)
    if BisSeen.is_told:
        if refused:
            gdb.write("bis: what was to be written before the program went on was refused:\n" + refused, gdb.STDERR)
        BisWatchIf.stopped(event)
    BisGone.look()
    bis_seen()


def bis_seen():
    """Sets $_bis_event and $_bis_place, and tells the server of a stop that a user sees."""
    for line in bis_ask(("stopped" if BisSeen.is_told else "where") + bis_thread()).splitlines():
        name, _, value = line.partition(" ")
        if name == "event" and value.isdigit():
            gdb.set_convenience_variable("_bis_event", int(value))
        elif name == "place":
            try:
                gdb.set_convenience_variable("_bis_place", value)
            except gdb.error:
                # Longer than gdb lets a value be, behind thousands of stops in one computation. `back` knows it all the same.
                gdb.set_convenience_variable("_bis_place", None)


def bis_means():
    """The user goes back with the selected thread, in front of the command that does it."""
    if not BisNoSignal.moves and gdb.selected_thread() is not None and BisTarget.is_bis():
        bis_monitor("means" + bis_thread())


def bis_begins():
    """`starti`, in front of it: gdb itself says then that the program stands where it has begun."""
    if BisTarget.is_bis():
        bis_monitor("begins stopped")


class BisRecorded(gdb.Command):
    """Refuse gdb's `record` where all is recorded already."""

    # gdb would begin a recording of its own on top of this one, single-stepping. It cannot lead back there, because the server refuses
    # the registers that it writes, and takes the thread for running then, whatever the user does.
    def invoke(self, argument, from_tty):
        if BisTarget.is_bis():
            raise gdb.GdbError("This is recorded already: `reverse-continue`, `reverse-step` and the like need no `record`.")


class BisRecording(gdb.Command):
    """Say that this is a recording, where gdb's `info record` would say that there is none."""

    def invoke(self, argument, from_tty):
        if BisTarget.is_bis():
            raise gdb.GdbError("This is a recording: `info recording` says more of it.")


BisRecorded("bis-is-recorded", gdb.COMMAND_MAINTENANCE)
BisRecording("bis-is-recording", gdb.COMMAND_MAINTENANCE)


def bis_hooks():
    """What is done around commands of gdb's own. (It asks before it defines what is there, as where this script is read twice.)"""
    hooks = {"hookpost-delete": "python BisWatches.all_deleted()", "hook-starti": "python bis_begins()"}
    for command in ("step", "stepi", "next", "nexti", "finish"):
        hooks["hook-reverse-" + command] = "python bis_means()"
    for command in ("hook-record", "record hook-full", "record full hook-restore", "target hook-record-full"):
        hooks[command] = "bis-is-recorded"
    hooks["info hook-record"] = "bis-is-recording"
    with gdb.with_parameter("confirm", False):
        for name, does in hooks.items():
            gdb.execute("define %s\n%s\nend" % (name, does))


def bis_catches_up(request="prompt"):
    """Hears what has gone without gdb's notice. What the server has refused, for people; gdb could not tell it."""
    state, _, refused = bis_monitor(request).partition("\n")
    BisLate.states.add(state)
    return refused


def bis_prompt():
    """Tells the server that the user is to say what comes next."""
    thread = gdb.selected_thread()
    if thread is None or thread.is_running() or not BisTarget.is_bis():
        return
    refused = bis_catches_up("prompt shown")
    BisLate.prompt()
    BisForks.look(gdb.breakpoints())
    bis_catches(None)
    if refused:
        gdb.write(refused, gdb.STDERR)
    # A command that failed when it had moved the program told of no stop.
    bis_seen()


BisLook("when", """Show the number of the last event before this place.
`bis dump` shows the events.""", True)
BisLook("when-ticks", "Show how far the thread has come since its last event, in the recording's unit.", True)
BisLook("when-tid", "Show the recorded number of the thread.", True)
BisPlace()
BisLook("when-end", "Show the place of the end of the process.")
BisLook("elapsed-time", "Show how much time had passed here when it was recorded.")
BisLook("info recording", "Show what the recording says of itself.")
BisLook("info checkpoints", "List the places that `checkpoint` has kept.")
BisLook("delete checkpoint", """Forget a place that `checkpoint` has kept.
Usage: delete checkpoint N""")
BisMove("seek", """Go to a place of the recording.
Usage: seek PLACE
PLACE is an event's number, a place as $_bis_place holds one, `start` or `end`.""", "a place")
BisMove("back", """Go back to where the program stood before the last command that moved it.
Usage: back [N]""")
BisMove("forward", """Undo `back`.
Usage: forward [N]""")
BisMove("restart", """Go to a place that `checkpoint` has kept.
Usage: restart N""", "the number of a checkpoint")
BisMove("rollback", """Go back to a place that `checkpoint` has kept.
Usage: rollback [N]
Without N, to the one that was kept last. From there, what was done is done again, and behind that a live program
(bis run --gdb) goes on.""")
BisLook("discard", """Forget a place that `checkpoint` has kept: as `delete checkpoint`.
Usage: discard N""")
BisInterval()
BisCheckpoint()
BisProcess()
BisDivert()
BisWatchIf()
BisConditions()


class BisHelp(gdb.Command):
    """The commands for recordings.

seek PLACE            go to an event, a place, `start` or `end`
back, forward         to where the program stood before, and back again
checkpoint, restart N keep a place, and go there; info checkpoints, delete checkpoint N
rollback [N], discard N
                      go back to the last one, or to N; the same as delete checkpoint N
set checkpoint-interval N seconds|N events|off
                      make checkpoints by themselves
when, when-place, when-ticks, when-tid, when-end, elapsed-time, info recording
                      where this is; also in $_bis_event and $_bis_place
last EXPR             go back to the last change of a value; changes EXPR [N] lists the last N
written [TEXT]        what the program wrote that has TEXT, with the events that wrote it
process [PID|PROGRAM] the processes of the recording; go to one
run [EVENT]           begin anew, or at an event
divert, divert end    try something out in a copy of the program, which can be changed
watch-if EXPR COND    watch, with a condition that the server evaluates
And gdb's own: reverse-continue, reverse-step, reverse-next, reverse-finish, reverse-stepi."""

    def __init__(self):
        super().__init__("bis", gdb.COMMAND_SUPPORT)

    def invoke(self, argument, from_tty):
        bis_execute("help bis")


BisHelp()
gdb.events.stop.connect(bis_stopped)
gdb.events.before_prompt.connect(bis_prompt)
if hasattr(gdb.events, "free_objfile"):
    gdb.events.free_objfile.connect(BisExceptions.freed)
    gdb.events.new_objfile.connect(BisExceptions.loaded)
    gdb.events.free_objfile.connect(BisWatches.freed)
    gdb.events.new_objfile.connect(BisWatches.loaded)
gdb.events.breakpoint_deleted.connect(BisWatchIf.deleted)
gdb.events.breakpoint_deleted.connect(BisForks.deleted)
gdb.events.breakpoint_created.connect(BisForks.created)
gdb.events.breakpoint_created.connect(BisWatched.created)
gdb.events.breakpoint_created.connect(BisConditions.created)
gdb.events.breakpoint_created.connect(BisWatches.created)
gdb.events.breakpoint_deleted.connect(BisWatches.deleted)
gdb.events.breakpoint_modified.connect(BisConditions.modified)
gdb.events.breakpoint_deleted.connect(BisWatched.deleted)
gdb.events.breakpoint_modified.connect(bis_catches)
gdb.events.new_objfile.connect(lambda event: BisGone.look(is_settled=False))
gdb.events.breakpoint_created.connect(BisGone.modified)
gdb.events.breakpoint_modified.connect(BisGone.modified)
gdb.events.breakpoint_deleted.connect(BisGone.deleted)
gdb.events.connection_removed.connect(BisTarget.forget)
bis_hooks()
end
