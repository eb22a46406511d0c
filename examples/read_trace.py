"""Prints what a trace of bis says, without bis, as docs/trace-format.md tells it: read_trace.py TRACE [SCHEMA]

It takes `pip install pycapnp zstandard xxhash`.
"""
import io, pathlib, struct, sys
import capnp, xxhash, zstandard

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "crates/bis-trace/schema/bis.capnp"
LOG_HEADER = struct.Struct("<8sIIQ")         # magic, format, least reader, checksum
CHUNK_HEADER = struct.Struct("<4sIIIQQIIQ")  # magic, stream, ordinal, events, first, last, length, compressed, checksum
REFERENCE = struct.Struct("<IIQIIQ")         # where in the messages, length; where in `blocks`, bytes there, 0, checksum

def check(data, checksum, what):
    if xxhash.xxh3_64_intdigest(data) != checksum:
        sys.exit(f"{what} is damaged")

def decompress(data, most):
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=most)

def unfold(folded, blocks):
    """The messages of a folded chunk: what they have in common with others is in the file `blocks`."""
    (count,), messages = struct.unpack_from("<I", folded), b""
    rest = io.BytesIO(folded[4 + count * REFERENCE.size :])
    for at, length, offset, stored, _, checksum in REFERENCE.iter_unpack(folded[4 : 4 + count * REFERENCE.size]):
        blocks.seek(offset)
        block = blocks.read(stored)
        messages += rest.read(at - len(messages)) + (decompress(block, length) if stored < length else block)
        check(messages[at:], checksum, f"the file blocks at byte {offset}")
    return messages + rest.read()

def chunks(folder):
    """(stream, messages) of each whole chunk, in the order of the log."""
    log, at, ordinals = (folder / "log").read_bytes(), LOG_HEADER.size, {}
    magic, written, reader, checksum = LOG_HEADER.unpack_from(log)
    check(log[:16], checksum, "the header of the log")
    if magic != b"BISTRACE" or reader > 8:
        sys.exit(f"this is no log of bis, or format {written}, which needs a reader of format {reader}")
    print(f"format {written}")
    while at + CHUNK_HEADER.size <= len(log):
        magic, stream, ordinal, _, _, _, length, compressed, checksum = CHUNK_HEADER.unpack_from(log, at)
        header, payload, at = log[at : at + 40], log[at + 48 : at + 48 + compressed], at + 48 + compressed
        if len(payload) < compressed:
            return print("the log ends early")
        check(header + payload, checksum, f"the log before byte {at}")
        if magic != b"\xb1\x5c\x4e\x0a" or ordinal != ordinals.setdefault(stream, 0):
            sys.exit(f"a chunk is missing before byte {at} of the log")
        ordinals[stream] += 1
        messages = decompress(payload, 2 * (length & 0x7FFFFFFF) + 4)
        yield stream, unfold(messages, open(folder / "blocks", "rb")) if length >> 31 else messages

schema, events = capnp.load(sys.argv[2] if len(sys.argv) > 2 else str(SCHEMA)), []
for stream, messages in chunks(pathlib.Path(sys.argv[1])):
    for entry in schema.Meta.read_multiple_bytes(messages) if stream == 0 else ():
        print(f"about itself: {entry.which()}")
    for event in schema.Event.read_multiple_bytes(messages) if stream else ():
        kind, what = str(event.kind.which()), getattr(event.kind, str(event.kind.which()))
        more = what.nr if kind.startswith("syscall") else f"{what.signal} {what.point}" if kind == "signal" else ""
        more = f"calls, {len(what.log)} bytes" if kind == "hooked" else more
        events.append((event.seq, f"event {event.seq} domain {stream} task {event.tid}: {kind} {more}".rstrip()))
print(*(line for _, line in sorted(events)), sep="\n")
