# SPDX-License-Identifier: BSD-3-Clause
"""iperf3_report.py NAME CLIENT.json SERVER.json: does iperf3 say that what was sent was received?

TCP: the receiver counts until the sender says that it is done, so it may lack what was then in flight: at most the socket
buffers, counted here as 16 MB a stream. UDP: each datagram was received or is counted as lost, and not many are
lost: on a busy machine the receiver sleeps longer than its buffer lasts. Prints what is the same in each run.
"""
import json
import sys

IN_FLIGHT = 16 << 20
LOST_PERCENT = 30

name = sys.argv[1]
client, server = (json.load(open(path, encoding="utf-8")) for path in sys.argv[2:4])
for end in (client, server):
    if "error" in end:
        sys.exit(f"{name}: {end['error']}")
test, end = client["start"]["test_start"], client["end"]
streams = len(end["streams"])
if test["protocol"] == "TCP":
    # Each end's own count: what the sender's socket took, and what the receiver's gave.
    sender, receiver = (server, client) if test["reverse"] else (client, server)
    sent, received = sender["end"]["sum_sent"]["bytes"], receiver["end"]["sum_received"]["bytes"]
    if not 0 <= sent - received <= IN_FLIGHT * streams:
        sys.exit(f"{name}: {sent} bytes sent, {received} received")
    if test["bytes"] and sent < test["bytes"]:
        sys.exit(f"{name}: {sent} bytes sent, asked for {test['bytes']}")
else:
    total = end["sum"]
    if not total["packets"] or total["lost_percent"] > LOST_PERCENT:
        sys.exit(f"{name}: {total['lost_packets']} of {total['packets']} datagrams lost")
    disorder = sum(s["udp"].get("out_of_order", 0) for s in end["streams"])
    if disorder:
        sys.exit(f"{name}: {disorder} datagrams out of order")
print(name, test["protocol"], streams, "reverse" if test["reverse"] else "forward", "good")
