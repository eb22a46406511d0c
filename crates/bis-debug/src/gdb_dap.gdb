# gdb as a debug adapter (`bis replay -i=dap`; VS Code and other editors), on a recording. gdb's own adapter starts a program, and a
# recording is there already; it cannot go backwards; and it tells its client of stops on the way to an answer. What is here takes the
# place of its requests where the connection leads to bis; it needs gdb 14, and comes behind `gdb_script.gdb` and `gdb_queries.gdb`.
#
# gdb connects before the client is there, as for its other interpreters, so that files given by -x find the recording. What there is to tell
# until then is told when the client has been answered that all is ready.

python
import sys
import threading


class BisDap:
    """What the client asks, and what it is told."""

    # gdb's own.
    server = events = failure = None
    # Tells the client of an event; gdb's own way.
    plain = None
    lock = threading.Lock()
    # What was to be told before the client was ready; None since it is.
    held = []
    # Not None where the client wants the recording: how it is to begin.
    begin = None
    is_resuming = False
    is_setting = False
    # Something stopped on the way to an answer.
    has_moved = False
    ends = []
    watches = []

    @classmethod
    def starts(cls):
        cls.server, cls.events = sys.modules["gdb.dap.server"], sys.modules["gdb.dap.events"]
        cls.failure = sys.modules["gdb.dap.startup"].DAPException
        running = cls.server._server
        # One calls the other where both are there.
        name = "send_event" if hasattr(running, "send_event") else "send_event_maybe_later"
        cls.plain = getattr(running, name)
        setattr(running, name, cls.tell)
        # gdb has read the program's file before this one.
        waiting = running._write_queue if hasattr(running, "_write_queue") else running.write_queue
        while not waiting.empty():
            early = waiting.get()
            cls.tell(early["event"], early.get("body"))
        for name in ("launch", "attach"):
            cls.instead(name, getattr(cls, name))
        cls.instead("configurationDone", cls.configured)
        cls.instead("terminate", cls.terminate)
        cls.instead("disconnect", cls.disconnect)
        for name in ("evaluate", "setVariable", "setExpression", "writeMemory"):
            cls.explains(name)
        commands = cls.server._commands
        commands["stepBack"] = cls.moves(cls.step_back)
        commands["reverseContinue"] = cls.moves(cls.reverse_continue)
        commands["restart"] = cls.moves(cls.restart)
        commands["dataBreakpointInfo"] = cls.asks(cls.data_breakpoint_info)
        commands["setDataBreakpoints"] = cls.asks(cls.set_data_breakpoints)
        for name in ("supportsStepBack", "supportsRestartRequest", "supportsDataBreakpoints"):
            cls.server._capabilities[name] = True
        BisSeen.searched.append(cls.searched)

    # Requests come on a thread of their own, and gdb is to be used on its own alone.

    @classmethod
    def instead(cls, name, ours):
        """A request that is ours where the connection leads to bis."""
        theirs = cls.server._commands[name]

        def request(**arguments):
            is_bis = cls.server.send_gdb_with_response(cls.is_there)
            return (ours if is_bis else theirs)(**arguments)
        cls.server._commands[name] = request

    @classmethod
    def is_there(cls):
        return cls.begin is not None or BisTarget.is_bis()

    @classmethod
    def later(cls, work):
        """On gdb's thread, when the request has been answered."""
        cls.server.call_function_later(lambda: cls.server.send_gdb(work))

    @classmethod
    def stands(cls):
        if cls.events.inferior_running:
            raise cls.server.NotStoppedException()

    @classmethod
    def moves(cls, work):
        """A request after which the program stands elsewhere."""
        def request(**arguments):
            cls.stands()
            # From here on, not from when gdb has resumed it: a second request may come before that.
            cls.events.inferior_running = True
            cls.later(lambda: work(**arguments))
        return request

    @classmethod
    def asks(cls, work):
        def request(**arguments):
            cls.stands()
            return cls.server.send_gdb_with_response(lambda: work(**arguments))
        return request

    @classmethod
    def explains(cls, name):
        """A request that may want to change the recording: gdb tells its refusal as if nothing were mapped there."""
        theirs = cls.server._commands.get(name)
        if theirs is None:
            return

        def request(**arguments):
            try:
                answer = theirs(**arguments)
            except cls.server.NotStoppedException:
                raise
            except Exception as error:
                why = cls.server.send_gdb_with_response(cls.refused)
                if why:
                    raise cls.failure("%s\n%s" % (error, why)) from error
                raise
            why = cls.server.send_gdb_with_response(cls.refused)
            if why:
                cls.server.send_event("output", {"category": "console", "output": why + "\n"})
            return answer
        cls.server._commands[name] = request

    @staticmethod
    def refused():
        thread = gdb.selected_thread()
        if thread is None or thread.is_running() or not BisTarget.is_bis():
            return ""
        why = bis_catches_up()
        BisLate.do()
        bis_seen()
        return why.rstrip()

    # How a session begins and ends.

    @classmethod
    def launch(cls, stopOnEntry=False, stopAtBeginningOfMainSubprogram=False, **_):
        cls.begin = (stopOnEntry, stopAtBeginningOfMainSubprogram)

    @classmethod
    def attach(cls, stopOnEntry=True, stopAtBeginningOfMainSubprogram=False, **_):
        cls.begin = (stopOnEntry, stopAtBeginningOfMainSubprogram)

    @classmethod
    def configured(cls, **_):
        if cls.begin is None:
            raise cls.failure("launch or attach comes first")
        cls.later(cls.begins)

    @classmethod
    def begins(cls):
        at_entry, at_main = cls.begin
        main = gdb.Breakpoint("main", internal=True, temporary=True) if at_main else None
        if main is not None and main.pending:
            # It has no function of this name, or nobody knows.
            main.delete()
            at_entry, at_main = True, False
        if at_entry and not at_main:
            cls.stopped("entry")
        else:
            cls.resume("continue")

    @classmethod
    def terminate(cls, **_):
        if not cls.server.send_gdb_with_response(lambda: cls.leave("kill")):
            cls.plain("terminated")

    @classmethod
    def disconnect(cls, **_):
        cls.server.send_gdb_with_response(lambda: cls.leave("disconnect"))
        cls.server._server.shutdown()

    @staticmethod
    def leave(command):
        """Nothing is lost with a recording: what gdb refuses here, it has done already, or does when it ends."""
        try:
            gdb.execute(command, False, True)
            return True
        except gdb.error:
            return False

    # Moving.

    @classmethod
    def resume(cls, command, thread=0, alone=False):
        cls.is_resuming = True
        try:
            if thread:
                gdb.execute("thread %d" % thread, False, True)
                gdb.execute("set scheduler-locking " + ("on" if alone else "off"), False, True)
            gdb.execute(command, False, True)
        except gdb.error as error:
            cls.server.send_event("output", {"category": "console", "output": "%s\n" % error})
            cls.stopped("pause")
        finally:
            cls.is_resuming = False

    @classmethod
    def step_back(cls, threadId, singleThread=False, granularity="statement", **_):
        cls.resume("reverse-nexti" if granularity == "instruction" else "reverse-next", threadId, singleThread)

    @classmethod
    def reverse_continue(cls, threadId, singleThread=False, **_):
        # Not in the background, as gdb's own `continue`: it would go on forwards from where it comes past.
        cls.resume("reverse-continue", threadId, singleThread)

    @classmethod
    def restart(cls, **_):
        cls.is_resuming = True
        try:
            with BisQuiet():
                bis_move("seek start")
        except gdb.error as error:
            cls.server.send_event("output", {"category": "console", "output": "%s\n" % error})
        finally:
            cls.is_resuming = False
        cls.stopped("entry")

    # Watchpoints. A value's address is the same in all sessions of a recording.

    @classmethod
    def data_breakpoint_info(cls, name, variablesReference=0, frameId=None, asAddress=False, bytes=1, **_):
        nothing = {"dataId": None, "description": "%s is not in memory" % name}
        if asAddress:
            address, size = int(name, 0), bytes
        else:
            value = cls.value_of(name, variablesReference, frameId)
            if value is None or value.is_optimized_out or value.address is None:
                return nothing
            address, size = int(value.address), value.type.sizeof
        if size == 0:
            return nothing
        return {
            "dataId": "%#x %d" % (address, size), "description": "%s (%d bytes at %#x)" % (name, size, address),
            "accessTypes": ["read", "write", "readWrite"], "canPersist": True}

    @staticmethod
    def value_of(name, container, frame):
        if container:
            child = sys.modules["gdb.dap.varref"].find_variable(container).find_child_by_name(name)
            value = getattr(child, "_value", getattr(child, "value", None))
            return value if isinstance(value, gdb.Value) else None
        if frame is not None:
            sys.modules["gdb.dap.frames"].select_frame(frame)
        return gdb.parse_and_eval(name)

    @classmethod
    def set_data_breakpoints(cls, breakpoints, **_):
        cls.is_setting = True
        try:
            for point in cls.watches:
                if point.is_valid():
                    point.delete()
            cls.watches = []
            return {"breakpoints": [cls.watch(**point) for point in breakpoints]}
        finally:
            cls.is_setting = False

    @classmethod
    def watch(cls, dataId, accessType="write", condition=None, hitCondition=None, **_):
        kinds = {"read": gdb.WP_READ, "readWrite": gdb.WP_ACCESS}
        point = None
        try:
            address, size = dataId.split()
            with gdb.with_parameter("language", "c"):
                point = gdb.Breakpoint(
                    "*(unsigned char (*)[%d]) %s" % (int(size), address), type=gdb.BP_WATCHPOINT,
                    wp_class=kinds.get(accessType, gdb.WP_WRITE))
            if condition:
                point.condition = condition
            if hitCondition:
                point.ignore_count = int(gdb.parse_and_eval(hitCondition))
        except (gdb.error, ValueError) as error:
            if point is not None:
                point.delete()
            return {"verified": False, "message": str(error)}
        cls.watches.append(point)
        return {"id": point.number, "verified": True}

    # What the client is told.

    @classmethod
    def tell(cls, event, body=None):
        with cls.lock:
            if event == "initialized":
                for early in [(event, body)] + (cls.held or []):
                    cls.plain(*early)
                cls.held = None
                return
            if cls.held is not None:
                # That it stands is no news to who is about to begin.
                if event not in ("stopped", "continued"):
                    cls.held.append((event, body))
                return
        if event in ("exited", "terminated"):
            # `run`, which a move to another program is, ends gdb's process, and there is another one at once.
            if not cls.ends:
                gdb.post_event(cls.ended)
            cls.ends.append((event, body))
        elif event == "breakpoint":
            if body["breakpoint"].get("id", 1) > 0 and not cls.is_setting and not BisSeen.is_searching:
                cls.plain(event, body)
        elif event == "continued":
            if not BisSeen.is_searching and not cls.is_resuming:
                cls.plain(event, body)
        elif event == "stopped":
            if BisSeen.is_searching:
                cls.has_moved = True
            elif not BisQuiet.depth:
                cls.plain(event, cls.explained(body))
        else:
            cls.plain(event, body)

    @staticmethod
    def explained(body):
        hit = body.get("hitBreakpointIds")
        if hit is not None and any(number < 0 for number in hit):
            hit = [number for number in hit if number > 0]
            body = dict(body, hitBreakpointIds=hit)
            if not hit:
                body["reason"] = "entry"
        if BisNoSignal.moves and body.get("reason") in ("signal", "stopped"):
            body = dict(body, reason="goto")
        return body

    @classmethod
    def ended(cls):
        ends, cls.ends = cls.ends, []
        if gdb.selected_inferior().pid == 0:
            for end in ends:
                cls.plain(*end)

    @classmethod
    def stopped(cls, reason):
        cls.events.inferior_running = False
        thread = gdb.selected_thread()
        if thread is not None:
            cls.plain("stopped", {"threadId": thread.global_num, "allThreadsStopped": True, "reason": reason})

    @classmethod
    def searched(cls):
        """A search is over: what the client knows of threads and frames is not so any more."""
        if cls.has_moved:
            cls.has_moved = False
            cls.stopped("goto")


class BisQuiet:
    """The client is not told of stops; who asks for this tells it."""

    depth = 0

    def __enter__(self):
        BisQuiet.depth += 1

    def __exit__(self, *_):
        BisQuiet.depth -= 1


if "gdb.dap" in sys.modules:
    try:
        BisDap.starts()
    except (AttributeError, KeyError) as error:
        gdb.write("bis: this gdb's debug adapter is another one than those that are known (%s)\n" % error)
end
