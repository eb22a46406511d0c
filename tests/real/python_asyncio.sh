#!/bin/bash
# python: asyncio with a server, clients, timers, subprocesses, queues and signals.
# needs: python3
# setup
cat > script.py <<'SCRIPT'
import asyncio, os, random, signal, time

async def handle(reader, writer):
    while line := await reader.readline():
        await asyncio.sleep(random.random() / 500)
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def client(port, n):
    r, w = await asyncio.open_connection("127.0.0.1", port)
    for i in range(10):
        w.write(f"client {n} line {i}\n".encode())
        assert await r.readline() == f"CLIENT {n} LINE {i}\n".encode()
    w.close()
    return n

async def main():
    loop, got = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, got.set)
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    done = []
    for c in asyncio.as_completed([client(port, n) for n in range(8)]):
        done.append(await c)
    print("order", done, "port", port)
    proc = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await proc.communicate(b"x" * 200000)
    print(len(out), proc.returncode)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 5)
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.02)
    except asyncio.TimeoutError:
        print("timed out as it should", time.monotonic())
    print(await loop.run_in_executor(None, sum, range(1000)))
    server.close()

asyncio.run(main())
SCRIPT
# record
exec /usr/bin/python3 script.py
# check
grep -q 'timed out as it should' "$OUT" && grep -q 499500 "$OUT"
