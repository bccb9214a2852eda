# SPDX-License-Identifier: BSD-3-Clause
"""memcache.py HOST PORT ROUNDS: sets and gets over memcached's text protocol; prints hashes of what came back."""
import hashlib
import random
import socket
import struct
import sys

HOST, PORT, ROUNDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
SIZES = (0, 1, 100, 4095, 65536, 300000, 1000000)
rng = random.Random(11)


def expect(reader, want):
    line = reader.readline()
    if line != want:
        sys.exit(f"answered {line!r} instead of {want!r}")


def value_of(reader, key):
    head = reader.readline().split()
    if head[:2] != [b"VALUE", key]:
        sys.exit(f"answered {head!r} for {key!r}")
    body = reader.read(int(head[3]))
    expect(reader, b"\r\n")
    expect(reader, b"END\r\n")
    return body


def values(sock, reader):
    for round_no in range(ROUNDS):
        for size in SIZES:
            key, body = b"k%d" % size, rng.randbytes(size)
            sock.sendall(b"set %s 0 0 %d\r\n" % (key, size) + body + b"\r\n")
            expect(reader, b"STORED\r\n")
            sock.sendall(b"get %s\r\n" % key)
            back = value_of(reader, key)
            if back != body:
                sys.exit(f"{size} bytes came back wrong in round {round_no}")
            print(round_no, size, hashlib.sha256(back).hexdigest())


def pipelined(sock, reader, count=2000, batch=100):
    """A batch of requests goes out before the first answer is read."""
    for first in range(0, count, batch):
        numbers = range(first, first + batch)
        sock.sendall(b"".join(b"set p%d 0 0 %d\r\n%d\r\n" % (n, len(str(n)), n) for n in numbers))
        for _ in numbers:
            expect(reader, b"STORED\r\n")
        sock.sendall(b"".join(b"get p%d\r\n" % n for n in numbers))
        for n in numbers:
            if value_of(reader, b"p%d" % n) != b"%d" % n:
                sys.exit(f"pipelined value {n} is wrong")
    print("pipelined", count)


def ping_pong(sock, reader, count=3000):
    sock.sendall(b"set n 0 0 1\r\n0\r\n")
    expect(reader, b"STORED\r\n")
    for n in range(1, count + 1):
        sock.sendall(b"incr n 1\r\n")
        expect(reader, b"%d\r\n" % n)
    print("incremented", count)


def udp(count=300):
    """The frame of the UDP protocol: request id, sequence number, datagrams of the answer, 0."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.connect((HOST, PORT))
        for n in range(count):
            sock.send(struct.pack("!4H", n, 0, 1, 0) + b"get p%d\r\n" % n)
            ident, _, total, _ = struct.unpack("!4H", (answer := sock.recv(2048))[:8])
            want = b"VALUE p%d 0 %d\r\n%d\r\nEND\r\n" % (n, len(str(n)), n)
            if (ident, total, answer[8:]) != (n, 1, want):
                sys.exit(f"datagram {n}: {answer!r}")
    print("datagrams", count)


with socket.create_connection((HOST, PORT)) as stream:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream_reader = stream.makefile("rb")
    values(stream, stream_reader)
    pipelined(stream, stream_reader)
    ping_pong(stream, stream_reader)
udp()
