# SPDX-License-Identifier: BSD-3-Clause
"""blob.py SIZE SEED: SIZE bytes that look random and depend on SEED alone, to standard output."""
import random
import sys

CHUNK = 1 << 20

size, rng = int(sys.argv[1]), random.Random(int(sys.argv[2]))
while size > 0:
    part = rng.randbytes(min(size, CHUNK))
    sys.stdout.buffer.write(part)
    size -= len(part)
