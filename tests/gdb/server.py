"""A debug server of nothing: enough of gdb's remote protocol that gdb believes it to be a stopped process with two
threads and a memory of nops. It keeps what bis's own gdb commands ask (crates/bis-debug/src/gdb_script.gdb has the
contract), moves as a target is armed, and writes what it was asked, a line each, when the debugger leaves."""
import re, socket, sys

LOG = []
AT = {"event": 7, "pc": 0x401000, "thread": 100, "armed": None, "run": False}
THREADS = [100, 101]
NAMES = ("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags cs ss ds es fs gs").split()
FLOATS = "fctrl fstat ftag fiseg fioff foseg fooff fop".split()


def description():
    bits = lambda name: 32 if name in ("eflags", "cs", "ss", "ds", "es", "fs", "gs") else 64
    kinds = {"rip": "code_ptr", "rsp": "data_ptr", "rbp": "data_ptr"}
    kind = lambda name: kinds.get(name, "int%d" % bits(name))
    lines = ['<reg name="%s" bitsize="%d" type="%s"/>' % (name, bits(name), kind(name)) for name in NAMES]
    lines += ['<reg name="st%d" bitsize="80" type="i387_ext"/>' % number for number in range(8)]
    lines += ['<reg name="%s" bitsize="32" type="int" group="float"/>' % name for name in FLOATS]
    return ('<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target version="1.0">'
            '<architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi>'
            '<feature name="org.gnu.gdb.i386.core">' + "".join(lines) + "</feature></target>")


def registers():
    values = {"rip": AT["pc"], "rsp": 0x7ffe0000}
    text = "".join(values.get(name, 0).to_bytes(8 if i < 17 else 4, "little").hex() for i, name in enumerate(NAMES))
    return text + "00" * (80 + 32)


def stop(signal):
    return "T%02xthread:%x;" % (signal, AT["thread"])


def jump():
    """What follows when a target was armed and the program is resumed."""
    (event, pc, thread), AT["armed"] = AT["armed"], None
    AT.update(event=event, pc=pc, thread=thread)
    return stop(0)


def monitor(command):
    LOG.append(command)
    words = command.split()
    if command == "bis":
        return "bis 0.1.0\n"
    if words[0] == "stopped":
        return "event %d\nplace %d.0\n" % (AT["event"], AT["event"])
    if words[0] == "when":
        return "Completed event: %d\n" % AT["event"]
    if words[0] in ("seek", "back", "forward", "restart") and words[1:] != ["nowhere"]:
        if words[1:] == ["7"] and AT["event"] == 7:
            return "here\n"
        event = int(words[1]) if words[1:] else 5
        AT["armed"] = (event, 0x400000 + event, 101 if event % 2 else 100)
        return "go %d.0\n" % event
    if words[0] == "process" and words[1:]:
        AT["armed"] = (50, 0x402000, 200)
        THREADS[:] = [200]
        return "load /bin/true\n"
    if words[0] == "checkpoint":
        return "Checkpoint 1 at %s\n" % " ".join(words[1:])
    if words[0] in ("watch-if", "watch-unless"):
        return "ok\n"
    return "error: there is no such %s\n" % words[0] if "nowhere" in words else "said %s\n" % command


def answer(packet):
    if packet.startswith("qSupported"):
        return "PacketSize=4000;vContSupported+;ReverseStep+;ReverseContinue+;QStartNoAckMode+;qXfer:features:read+"
    if packet.startswith("qXfer:features:read:target.xml:"):
        at, length = (int(part, 16) for part in packet.rsplit(":", 1)[1].split(","))
        part = description()[at:at + length]
        return ("m" if at + length < len(description()) else "l") + part
    if packet.startswith("qRcmd,"):
        return monitor(bytes.fromhex(packet[6:]).decode()).encode().hex()
    if packet == "vCont?":
        return "vCont;c;C;s;S"
    if packet == "?":
        return stop(5)
    if packet == "qfThreadInfo":
        return "m" + ",".join("%x" % thread for thread in THREADS)
    if packet == "qsThreadInfo":
        return "l"
    if packet == "qC":
        return "QC%x" % AT["thread"]
    if packet == "qAttached":
        return "0"
    if packet == "!" or packet[0] in "HTzZ" or packet.startswith("vKill"):
        if packet[0] in "zZ":
            LOG.append("packet " + packet.split(";")[0])
        return "OK"
    if packet == "g":
        return registers()
    if packet[0] == "m":
        return "90" * int(packet.split(",")[1], 16)
    if packet.startswith("vRun"):
        LOG.append("packet " + packet)
        AT["run"] = True
        return jump() if AT["armed"] else stop(5)
    if packet.startswith("vCont") or packet in ("bs", "bc"):
        LOG.append("packet " + re.sub(r":.*", "", packet))
        if AT["run"]:
            AT["run"] = False
            return stop(0)
        if AT["armed"]:
            return jump()
        AT["pc"] += 1
        return stop(5)
    if packet == "D":
        return "OK"
    return ""


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    buffer, acknowledged = b"", True
    while data := connection.recv(65536):
        buffer += data
        while found := re.match(rb"[+-]*(\x03)?[+-]*(?:\$([^#]*)#..)?", buffer):
            if not found.group(0):
                break
            buffer = buffer[found.end():]
            if found.group(2) is None:
                continue
            packet = found.group(2).decode("latin-1")
            text = "OK" if packet == "QStartNoAckMode" else answer(packet) if packet else ""
            reply = "$%s#%02x" % (text, sum(text.encode()) % 256)
            connection.sendall((("+" if acknowledged else "") + reply).encode())
            acknowledged = acknowledged and packet != "QStartNoAckMode"
    print("\n".join(LOG), flush=True)


main()
