"""Prints what a trace of bis says, without bis: the format is told in docs/trace-format.md.

usage: read_trace.py TRACE [SCHEMA]        with pip install pycapnp zstandard xxhash
"""
import pathlib, struct, sys
import capnp, xxhash, zstandard

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "crates/bis-trace/schema/bis.capnp"
LOG_HEADER = struct.Struct("<8sIIQ")        # magic, format, least reader, checksum
CHUNK_HEADER = struct.Struct("<4sIIIQQIIQ")  # magic, stream, ordinal, events, first, last, length, compressed, checksum


REFERENCE = struct.Struct("<IIQIIQ")        # where among the messages, length; where in `blocks`, bytes there, 0, checksum


def unfold(folded, folder):
    """The messages of a folded chunk: what they have in common with others is in the file `blocks`."""
    (count,) = struct.unpack_from("<I", folded)
    rest, messages = folded[4 + count * REFERENCE.size :], b""
    with open(folder / "blocks", "rb") as blocks:
        for at, length, offset, stored, _, checksum in REFERENCE.iter_unpack(folded[4 : 4 + count * REFERENCE.size]):
            before = at - len(messages)
            blocks.seek(offset)
            block = blocks.read(stored)
            if stored < length:
                block = zstandard.ZstdDecompressor().decompress(block, max_output_size=length)
            if xxhash.xxh3_64_intdigest(block) != checksum:
                sys.exit(f"the file blocks is damaged at byte {offset}")
            messages, rest = messages + rest[:before] + block, rest[before:]
    return messages + rest


def chunks(log, folder):
    """(stream, messages) of each whole chunk, in the order of the log."""
    magic, written, reader, checksum = LOG_HEADER.unpack_from(log)
    if magic != b"BISTRACE" or xxhash.xxh3_64_intdigest(log[:16]) != checksum:
        sys.exit("this is no log of bis")
    if reader > 8:
        sys.exit(f"format {written} needs a reader of format {reader}")
    print(f"format {written}")
    at, expected = LOG_HEADER.size, {}
    while at + CHUNK_HEADER.size <= len(log):
        magic, stream, ordinal, _, _, _, length, compressed, checksum = CHUNK_HEADER.unpack_from(log, at)
        header, payload = log[at : at + 40], log[at + 48 : at + 48 + compressed]
        at += CHUNK_HEADER.size + compressed
        if magic != b"\xb1\x5c\x4e\x0a" or at > len(log):
            return print("the log ends early")
        if xxhash.xxh3_64_intdigest(header + payload) != checksum or ordinal != expected.get(stream, 0):
            sys.exit(f"the log is damaged before byte {at}")
        expected[stream] = ordinal + 1
        folded, length = length >> 31, length & 0x7FFFFFFF
        messages = zstandard.ZstdDecompressor().decompress(payload, max_output_size=2 * length + 4)
        yield stream, unfold(messages, folder) if folded else messages


def brief(event):
    """An event in a line."""
    kind = event.kind.which()
    what = getattr(event.kind, str(kind))
    if kind in ("syscall", "syscallEnter", "syscallExit"):
        return f"{kind} {what.nr}"
    if kind == "signal":
        return f"signal {what.signal} {what.point}"
    if kind == "hooked":
        return f"hooked calls, {len(what.log)} bytes"
    return str(kind)


def main():
    folder = pathlib.Path(sys.argv[1])
    schema = capnp.load(sys.argv[2] if len(sys.argv) > 2 else str(SCHEMA))
    events = []
    for stream, messages in chunks((folder / "log").read_bytes(), folder):
        if stream == 0:
            for entry in schema.Meta.read_multiple_bytes(messages):
                print(f"about itself: {entry.which()}")
        else:
            for event in schema.Event.read_multiple_bytes(messages):
                events.append((event.seq, f"domain {stream} task {event.tid}: {brief(event)}"))
    for number, line in sorted(events):
        print(f"event {number} {line}")


main()
