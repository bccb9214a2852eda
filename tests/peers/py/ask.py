# SPDX-License-Identifier: BSD-3-Clause
"""ask.py PORT CONNECTIONS BYTES: several connections at once, each sends, closes its half and prints the answer."""
import random
import socket
import sys
import threading

PORT, CONNECTIONS, BYTES = (int(arg) for arg in sys.argv[1:4])
answers = [b"none"] * CONNECTIONS


def ask(number):
    rng, left = random.Random(number), BYTES + number
    with socket.create_connection(("127.0.0.1", PORT), timeout=30) as sock:
        while left:
            part = rng.randbytes(min(left, rng.choice((1, 100, 4096, 60000, 200000))))
            sock.sendall(part)
            left -= len(part)
        sock.shutdown(socket.SHUT_WR)
        answers[number] = sock.makefile("rb").read()


threads = [threading.Thread(target=ask, args=(number,)) for number in range(CONNECTIONS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number, answer in enumerate(answers):
    print(number, answer.decode().strip())
