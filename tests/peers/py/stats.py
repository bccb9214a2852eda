# SPDX-License-Identifier: BSD-3-Clause
"""stats.py FILE [--share PERCENT] [--reason WORD[,WORD]]: judges what accelerated processes wrote to TAUT_STATS_FILE.

FILE has one JSON object a line, from each process at its exit. There has to be one at least, and together they have to
have moved bytes: a pass whose traffic never met libtaut.so proves nothing. Prints one line for a person; exit
status 1 when too few of the bytes sent went by shared memory, no process met any of the reasons, or the counters
contradict each other.

The rule is that of docs/stat.md, "A good share", which tests/stream/under has too.
"""
import argparse
import json
import sys
from collections import Counter

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--share", type=float)
parser.add_argument("--floor", type=float, default=5, help="percent of all bytes sent")
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
EXCUSES = ("bell", "young", "still", "last", "shared")
sent_shm, sent_kernel = totals["tx_shm_bytes"], totals["tx_kernel_bytes"]
sent = sent_shm + sent_kernel
excused = {name: totals[f"tx_{name}_bytes"] for name in EXCUSES}
could = sent - sum(excused.values())
needless = could - sent_shm
share = 100.0 * sent_shm / could if could > 0 else 0
why = ", ".join(f"{word} {n}" for word, n in reasons.most_common())
text = (
    f"{100.0 * shm / total:.1f} % of {total / 1e6:.1f} MB by shared memory, {share:.1f} % of the {could / 1e6:.1f} MB "
    f"that could go so ({', '.join(f'{name} {n / 1e6:.1f}' for name, n in excused.items())}; {processes} processes; "
    f"{why or 'no fallbacks'})"
)
if needless < 0:
    sys.exit(f"{text}: the counters contradict each other: more had to go by the kernel than the {sent_kernel} bytes that did")
if args.share is not None:
    if sent_shm == 0 or 100 * sent_shm < args.floor * sent:
        sys.exit(f"{text}: less than {args.floor:g} % of all that was sent went by shared memory")
    if 100 * sent_shm < args.share * could and (2 * could >= sent or 100 * needless > (100 - args.share) * sent):
        sys.exit(f"{text}, asked for {args.share:.0f} %")
if args.reason and not any(reasons[word] for word in args.reason.split(",")):
    sys.exit(f"{text}: nobody gave the reason {args.reason}")
print(text)
