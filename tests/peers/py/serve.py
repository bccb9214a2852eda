# SPDX-License-Identifier: BSD-3-Clause
"""serve.py fork|thread PORT: reads each connection to its end and answers with the hash and size. Ends with SIGTERM."""
import hashlib
import signal
import socketserver
import sys
import threading


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        digest, size = hashlib.sha256(), 0
        while part := self.rfile.read1(70000):
            digest.update(part)
            size += len(part)
        self.wfile.write(f"{size} {digest.hexdigest()}\n".encode())


kinds = {"fork": socketserver.ForkingTCPServer, "thread": socketserver.ThreadingTCPServer}
server = kinds[sys.argv[1]](("127.0.0.1", int(sys.argv[2])), Handler)
# shutdown() waits for the loop of serve_forever(), which the handler has interrupted.
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever(poll_interval=0.05)
server.server_close()
