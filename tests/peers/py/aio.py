# SPDX-License-Identifier: BSD-3-Clause
"""aio.py server PORT FILE | client PORT FILE: asyncio streams, loop.sendfile and datagrams.

Stream: the client's first line says what it wants. "echo": every byte comes back, until the client closes its half.
"file": the server sends FILE by sendfile and closes. Datagrams come back one by one. The server ends with SIGTERM.
"""
import asyncio
import hashlib
import random
import signal
import sys

ROLE, PORT, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
HOST = "127.0.0.1"
TIMEOUT_S = 40


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(data, addr)


class Asker(asyncio.DatagramProtocol):
    def __init__(self):
        self.answers = asyncio.Queue()

    def datagram_received(self, data, addr):
        self.answers.put_nowait(data)


async def serve_stream(reader, writer):
    want = await reader.readline()
    if want == b"file\n":
        with open(FILE, "rb") as file:
            await asyncio.get_running_loop().sendfile(writer.transport, file)
    else:
        while part := await reader.read(50000):
            writer.write(part)
            await writer.drain()
    writer.close()
    await writer.wait_closed()


async def serve():
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, done.set)
    transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=(HOST, PORT))
    server = await asyncio.start_server(serve_stream, HOST, PORT)
    await done.wait()
    server.close()
    transport.close()
    await server.wait_closed()


async def echo(number):
    rng, sent, size = random.Random(number), hashlib.sha256(), 2000000 + number
    reader, writer = await asyncio.open_connection(HOST, PORT)

    async def send():
        left = size
        writer.write(b"echo\n")
        while left:
            part = rng.randbytes(min(left, rng.choice((1, 50, 3000, 70000))))
            sent.update(part)
            writer.write(part)
            await writer.drain()
            left -= len(part)
        writer.write_eof()

    sending, got, count = asyncio.create_task(send()), hashlib.sha256(), 0
    while part := await reader.read(30000):
        got.update(part)
        count += len(part)
    await sending
    writer.close()
    if got.digest() != sent.digest():
        sys.exit(f"connection {number}: {count} of {size} bytes came back, or other ones")
    return f"echo {number} {count} {got.hexdigest()}"


async def fetch():
    reader, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(b"file\n")
    digest, count = hashlib.sha256(), 0
    while part := await reader.read(1 << 18):
        digest.update(part)
        count += len(part)
    writer.close()
    return f"file {count} {digest.hexdigest()}"


async def datagrams(count=1000):
    rng = random.Random(9)
    transport, asker = await asyncio.get_running_loop().create_datagram_endpoint(
        Asker, remote_addr=(HOST, PORT)
    )
    for number in range(count):
        data = rng.randbytes(rng.choice((0, 1, 500, 1472, 9000)))
        transport.sendto(data)
        if data and await asyncio.wait_for(asker.answers.get(), 5) != data:
            sys.exit(f"datagram {number} came back wrong")
        # asyncio does not send empty datagrams.
    transport.close()
    return f"datagrams {count}"


async def ask():
    lines = await asyncio.gather(fetch(), datagrams(), *(echo(number) for number in range(8)))
    print("\n".join(lines))


asyncio.run(asyncio.wait_for(serve() if ROLE == "server" else ask(), None if ROLE == "server" else TIMEOUT_S))
