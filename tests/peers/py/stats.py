# SPDX-License-Identifier: BSD-3-Clause
"""stats.py FILE [--share PERCENT] [--reason WORD]: judges what accelerated processes wrote to TAUT_STATS_FILE.

FILE has one JSON object a line, from each process at its exit. There has to be one at least, and together they have to
have moved bytes: a pass whose traffic never met libtaut.so proves nothing. Prints one line for a person; exit
status 1 when the share of bytes by shared memory is below PERCENT, or no process met the reason WORD.
"""
import argparse
import json
import sys
from collections import Counter

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--share", type=float)
parser.add_argument("--reason")
args = parser.parse_args()

totals, reasons, processes = Counter(), Counter(), 0
with open(args.file, encoding="utf-8") as lines:
    for text in lines:
        line = json.loads(text)
        processes += 1
        totals.update(line["totals"])
        reasons.update(line["reasons"])
if not processes:
    sys.exit("no accelerated process wrote its statistics")
shm = totals["tx_shm_bytes"] + totals["rx_shm_bytes"]
total = shm + totals["tx_kernel_bytes"] + totals["rx_kernel_bytes"]
if not total:
    sys.exit(f"{processes} accelerated processes, and none moved a byte")
share = 100.0 * shm / total
why = ", ".join(f"{word} {n}" for word, n in reasons.most_common())
text = f"{share:.1f} % of {total / 1e6:.1f} MB by shared memory ({processes} processes; {why or 'no fallbacks'})"
if args.share is not None and share < args.share:
    sys.exit(f"{text}, asked for {args.share:.0f} %")
if args.reason and not reasons[args.reason]:
    sys.exit(f"{text}: nobody gave the reason '{args.reason}'")
print(text)
