# SPDX-License-Identifier: BSD-3-Clause
"""stats.py FILE [--share PERCENT] [--reason WORD[,WORD]]: judges what accelerated processes wrote to TAUT_STATS_FILE.

FILE has one JSON object a line, from each process at its exit. There has to be one at least, and together they have to
have moved bytes: a pass whose traffic never met libtaut.so proves nothing. Prints one line for a person; exit
status 1 when less than PERCENT of the eligible bytes went by shared memory, or no process met any of the reasons.

Eligible is what an attached connection sent while its receiver was awake and took what it was sent: of what went by the kernel, the
counters say what woke a sleeper (bell), what was sent before the connection was attached (young), while its receiver took nothing of a
full ring (still), after a half close (last), and while two processes held an end (shared). See docs/stat.md.
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
sent = totals["tx_shm_bytes"] + totals["tx_kernel_bytes"]
EXCUSES = ("bell", "young", "still", "last", "shared")
excused = {name: totals[f"tx_{name}_bytes"] for name in EXCUSES}
eligible = sent - sum(excused.values())
share = 100.0 * totals["tx_shm_bytes"] / eligible if eligible >= 1 else 0
why = ", ".join(f"{word} {n}" for word, n in reasons.most_common())
text = (
    f"{100.0 * shm / total:.1f} % of {total / 1e6:.1f} MB by shared memory, {share:.1f} % of the {eligible / 1e6:.1f} MB "
    f"that could go so ({', '.join(f'{name} {n / 1e6:.1f}' for name, n in excused.items())}; {processes} processes; "
    f"{why or 'no fallbacks'})"
)
# Where less than half of all could go so, as on a busy machine, a share of it says little: then the rest is held against all.
needless = 100.0 * (eligible - totals["tx_shm_bytes"]) / sent if sent else 0
enough = share >= (args.share or 0) or (2 * eligible < sent and totals["tx_shm_bytes"] and needless <= 100 - args.share)
if args.share is not None and not enough:
    sys.exit(f"{text}, asked for {args.share:.0f} %")
if args.reason and not any(reasons[word] for word in args.reason.split(",")):
    sys.exit(f"{text}: nobody gave the reason {args.reason}")
print(text)
