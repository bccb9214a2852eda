#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's socket selftests and glib's socket tests, on the kernel and under `taut run`: same exit codes, same output.

usage: run.py --mode native|default|first-byte --out DIR [--taut PATH] [--case NAME]...

The sources come from Debian's package linux-source-6.1, as installed or downloaded by apt-get into DIR; only the folders
named here are taken out, and each program is one line of gcc. The glib programs are those of libglib2.0-tests. Nothing
of them is kept in the tree. cases.py says what is run. Each case has a network namespace of its own with only the
loopback interface. Mode native writes DIR/native.json; the other modes (first-byte is TAUT_ATTACH_AFTER=0) are
compared with it: exit code, and output with the numbers masked (times, ports, counts of packets).
Exit status: 0 good, 1 not, 2 usage, 77 cannot be run here.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cases import CASES, EDITS, GLIB_CASES, LIMITS_S, PROGRAMS

PACKAGE = "linux-source-6.1"
TARBALL = Path(f"/usr/src/{PACKAGE}.tar.xz")
FOLDERS = ("tools/testing/selftests/net/*", "tools/testing/selftests/filesystems/epoll/*", "tools/testing/selftests/*.h")
STATS = Path(__file__).resolve().parents[2] / "peers/py/stats.py"
BLOB = Path(__file__).resolve().parents[2] / "peers/py/blob.py"
LIMIT_S = 30
FIRST_BYTE_TIMES = 4  # that setting waits for the other end in each new connection, and some open tens of thousands
NATIVE_TRIES = 2  # a case that does not give the same twice natively proves nothing and is named

# What each case starts with: listening waits for a port.
PRELUDE = """
set -o pipefail
ip link set lo up
listening() {
	n=0
	until [ -n "$(ss -Hn "-l${2:-t}" "sport = :$1")" ]; do
		n=$((n + 1))
		[ $n -lt 500 ] || { echo "nobody listens on $1"; exit 99; }
		sleep 0.02
	done
}
"""


def skip(text):
    print(f"SKIP: {text}")
    sys.exit(77)


def shell(command, **more):
    return subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


class Suite:
    def __init__(self, args):
        self.args = args
        self.out = Path(args.out).resolve()
        self.programs = self.out / "programs"
        self.out.mkdir(parents=True, exist_ok=True)
        self.stats = self.out / f"{args.mode}.stats"
        self.stats.unlink(missing_ok=True)

    def sources(self):
        """The folder of the selftests, taken out of the package once for each version of it."""
        tree = self.out / "source"
        if (tree / "done").exists():
            return tree
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        wanted = " ".join(f"'{PACKAGE}/{folder}'" for folder in FOLDERS)
        if TARBALL.exists():
            read = f"cat {TARBALL}"
        else:
            got = shell(f"apt-get -q download {PACKAGE}", cwd=tree)
            debs = list(tree.glob("*.deb"))
            if got.returncode or not debs:
                skip(f"{PACKAGE} is neither installed nor to be had: apt-get install {PACKAGE}")
            read = f"dpkg-deb --fsys-tarfile {debs[0]} | tar -xO .{TARBALL}"
        taken = shell(f"{read} | tar -xJf - --strip-components=1 --wildcards {wanted}", cwd=tree)
        for deb in tree.glob("*.deb"):
            deb.unlink()
        if not (tree / "tools/testing/selftests/net").is_dir():
            sys.exit(f"run.py: no selftests in the package: {taken.stdout}")
        (tree / "done").touch()
        return tree

    def build(self):
        selftests = self.sources() / "tools/testing/selftests"
        self.programs.mkdir(exist_ok=True)
        bad = []
        for name, source in PROGRAMS.items():
            if (self.programs / name).exists():
                continue
            if name in EDITS:
                subprocess.run(["sed", "-i", EDITS[name], source], cwd=selftests, check=True)
            # No optimisation, as the kernel's Makefile does it: epoll_wakeup_test spins on plain variables.
            gcc = shell(f"gcc -w -I{selftests} -o {self.programs / name} {source} -lpthread", cwd=selftests)
            if gcc.returncode:
                bad.append(f"{name}: {gcc.stdout.splitlines()[0]}")
        blob = self.programs / "file"
        if not blob.exists():
            with open(blob, "wb") as file:
                subprocess.run([sys.executable, BLOB, "3000001", "17"], stdout=file, check=True)
        return bad

    def run(self, mode, name, text):
        """[exit code, masked output, plain output, seconds]; the code is "hang" for a case that did not end."""
        folder = tempfile.mkdtemp(prefix="taut-selftest-")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TAUT_", "LD_PRELOAD"))}
        env["PATH"] = f"{self.programs}:{env['PATH']}:/usr/sbin:/sbin"
        env["G_TEST_SRCDIR"] = env["G_TEST_BUILDDIR"] = "/usr/libexec/installed-tests/glib"
        env["T"] = "" if mode == "native" else f"{self.args.taut} run --"
        env["FILE"] = str(self.programs / "file")
        if mode != "native":
            env["TAUT_STATS_FILE"] = str(self.stats)
        if mode == "first-byte":
            env["TAUT_ATTACH_AFTER"] = "0"
        start = time.monotonic()
        how = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
        child = subprocess.Popen(how + ["bash", "-c", PRELUDE + text], cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                                 start_new_session=True)
        try:
            times = FIRST_BYTE_TIMES if mode == "first-byte" else 1
            output, _ = child.communicate(timeout=LIMITS_S.get(name, LIMIT_S) * times)
            code = child.returncode
        except subprocess.TimeoutExpired:
            code, output = "hang", ""
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)
        return [code, masked(output), output[-3000:], round(time.monotonic() - start, 1)]

    def all_cases(self):
        cases = {n: t for n, t in (CASES | GLIB_CASES).items() if not self.args.case or n in self.args.case}
        tries = NATIVE_TRIES if self.args.mode == "native" else 1
        with ThreadPoolExecutor(2) as pool:
            futures = {n: [pool.submit(self.run, self.args.mode, n, t) for _ in range(tries)] for n, t in cases.items()}
            return {n: [future.result() for future in tries] for n, tries in futures.items()}


def masked(text):
    """What of an output counts. Of TAP: the cases that are ok. Else all lines, without numbers and their order."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    tap = [line for line in lines if line.startswith("ok ")]
    return sorted(set(tap) or {re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", line) for line in lines})


def is_tap(result):
    return any(line.startswith("ok ") for line in result[1])


def report_native(results):
    bad = 0
    for name, (first, second) in results.items():
        if first[:2] != second[:2]:
            print(f"{name}: not the same twice natively: {first[0]} {first[2][-300:]!r}, {second[0]} {second[2][-300:]!r}")
            bad += 1
        elif first[0] != 0 and not is_tap(first):
            print(f"{name}: exit code {first[0]} natively: {first[2][-300:]!r}")
            bad += 1
    print(f"{len(results) - bad} of {len(results)} cases pass natively")
    return 1 if bad else 0


def compare(native, mine):
    lost = 0
    for name, [result] in mine.items():
        want = native[name][0]
        less = set(want[1]) - set(result[1])
        if is_tap(want) and not less:
            continue
        if result[0] != want[0]:
            print(f"{name}: exit code {result[0]}, natively {want[0]}: {result[2][-600:]!r}")
            lost += 1
        elif result[1] != want[1]:
            more = sorted(set(result[1]) - set(want[1]))
            print(f"{name}: the output differs: only under taut {more}, only natively {sorted(less)}")
            lost += 1
    print(f"{len(mine) - lost} of {len(mine)} cases as natively")
    return lost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True, choices=("native", "default", "first-byte"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--taut", default="build/release/taut")
    parser.add_argument("--case", action="append", choices=CASES | GLIB_CASES)
    args = parser.parse_args()
    args.taut = os.path.abspath(args.taut)
    if subprocess.run(["unshare", "-n" if os.geteuid() == 0 else "-rn", "ip", "link", "set", "lo", "up"],
                      stderr=subprocess.DEVNULL, check=False).returncode:
        skip("host gives no network namespace")
    if not os.path.exists("/usr/libexec/installed-tests/glib/socket"):
        skip("not installed: apt-get install libglib2.0-tests")
    suite = Suite(args)
    bad = suite.build()
    if bad:
        print("do not compile:", *bad, sep="\n  ")
        return 1
    results = suite.all_cases()
    with open(suite.out / f"{args.mode}.json", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    if args.mode == "native":
        return report_native(results)
    native = suite.out / "native.json"
    if not native.exists():
        print(f"run.py: {native} is not there: run --mode native first", file=sys.stderr)
        return 2
    lost = compare(json.loads(native.read_text(encoding="utf-8")), results)
    share = ["--share", "95"] if args.mode == "first-byte" else []
    moved = subprocess.run([sys.executable, STATS, suite.stats, *share], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, check=False)
    print(moved.stdout.strip())
    return 1 if lost or moved.returncode else 0


sys.exit(main())
