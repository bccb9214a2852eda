# SPDX-License-Identifier: BSD-3-Clause
"""fetch.py BASE-URL NAME...: fetches each by urllib, first in turn, then all at once by threads; prints hashes."""
import hashlib
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

BASE, NAMES = sys.argv[1], sys.argv[2:]


def fetch(name):
    digest, size = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(f"{BASE}/{name}", timeout=30) as answer:
            while part := answer.read(10000):
                digest.update(part)
                size += len(part)
    except urllib.error.HTTPError as error:
        return f"{name} {error.code}"
    return f"{name} {size} {digest.hexdigest()}"


for name in NAMES:
    print(fetch(name))
with ThreadPoolExecutor(4) as pool:
    for line in pool.map(fetch, NAMES * 2):
        print(line)
