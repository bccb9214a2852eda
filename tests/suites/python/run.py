#!/usr/bin/python3.11
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's libpython3.11-testsuite on the kernel and under `taut run`: the same tests have to pass.

usage: run.py --mode native|default|first-byte --out DIR [--taut PATH] [--module NAME]...

Mode native writes DIR/native.json, the tests of each module with their results. The other modes (first-byte is
TAUT_ATTACH_AFTER=0) write theirs beside it and fail on each test that passes natively and not under taut. Such a test is run
alone again, ten times each way; it is excused only if it also fails natively there, and is named all the same.

Each module runs in a network namespace of its own with only the loopback interface, two modules at a time.
Exit status: 0 good, 1 not, 2 usage, 77 cannot be run here.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PYTHON = "/usr/bin/python3.11"  # Debian's: the package holds the tests of exactly this one
STATS = Path(__file__).resolve().parents[2] / "peers/py/stats.py"
# Row: seconds it may take, options of regrtest. The longest first, so that two workers end at about the same time.
# Left out are classes that hang in a virtual machine without the device, or where the kernel lacks the protocol; UDPLITE
# is such a protocol, so it stands apart and counts only where it ends natively.
MODULES = {
    "test_ssl": (240,),
    "test_socket": (180, "-i", "*VSOCK*", "-i", "*CAN*", "-i", "*UDPLITE*"),
    "test_asyncio.test_events": (180,),
    "test_selectors": (120,),
    "test_poll": (90,),
    "test_socket/udplite": (60, "-m", "*UDPLITE*"),
    "test_asyncio.test_sock_lowlevel": (60,),
    "test_asyncio.test_streams": (60,),
    "test_asyncio.test_selector_events": (60,),
    "test_socketserver": (60,),
    "test_timeout": (60,),
    "test_select": (60,),
    "test_epoll": (60,),
}
OPTIONAL = ("test_socket/udplite",)
RERUNS = 10
RERUNS_MAX = 20  # more lost tests than this are not looked at one by one


def namespace():
    """The prefix that gives a command a network namespace of its own, or None."""
    for how in (["unshare", "-n"], ["unshare", "-rn"]):
        prefix = how + ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if subprocess.run(prefix + ["true"], stderr=subprocess.DEVNULL).returncode == 0:
            return prefix
    return None


def natively_good(native, module):
    """Also true in mode native, where that is to be found out."""
    return native is None or bool(native[module]["tests"] and not native[module]["note"])


class Run:
    def __init__(self, args, prefix):
        self.args, self.prefix = args, prefix
        self.out = Path(args.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.stats = self.out / f"{args.mode}.stats"
        self.stats.unlink(missing_ok=True)

    def environment(self, mode):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TAUT_", "PYTHON", "LD_PRELOAD"))}
        if mode != "native":
            env["TAUT_STATS_FILE"] = str(self.stats)
        if mode == "first-byte":
            env["TAUT_ATTACH_AFTER"] = "0"
        return env

    def regrtest(self, mode, module, name, patterns=()):
        """Runs one module; returns {test: ok|skipped|failed}, and a text if it did not end well."""
        limit, *options = MODULES[module]
        xml_path, log_path = (self.out / f"{name.replace('/', '.')}.{kind}" for kind in ("xml", "log"))
        xml_path.unlink(missing_ok=True)
        command = self.prefix + ([self.args.taut, "run", "--"] if mode != "native" else [])
        command += [PYTHON, "-m", "test", "-v", "-u", "network", "--junit-xml", str(xml_path)]
        for pattern in patterns:
            options += ["-m", pattern]
        command += options + [module.split("/")[0]]
        note = None
        with tempfile.TemporaryDirectory(prefix="taut-python-") as folder, open(log_path, "wb") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, cwd=folder,
                                     stderr=subprocess.STDOUT, env=self.environment(mode), start_new_session=True)
            try:
                code = child.wait(limit)
                # 2 is a failed test, which the results say; less than 0 is a signal.
                if code not in (0, 2):
                    note = f"exit status {code}"
            except subprocess.TimeoutExpired:
                note = f"not done in {limit} s"
            try:
                os.killpg(child.pid, signal.SIGKILL)  # what the module left behind, or all of it
            except ProcessLookupError:
                pass
            child.wait()
        return self.results(xml_path, log_path, note)

    def results(self, xml_path, log_path, note):
        if xml_path.exists():
            tests = {}
            for case in xml.etree.ElementTree.parse(xml_path).getroot().iter("testcase"):
                tags = {child.tag for child in case}
                verdict = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "ok"
                tests[case.get("name")] = verdict
            return tests, note
        # It died: the log says in which test.
        text = log_path.read_text(errors="replace")
        last = [line for line in text.splitlines() if " ... " in line or line.endswith(" ...")]
        return {}, f"{note or 'no results'}; in {last[-1] if last else 'no test'}; log: {log_path}"

    def all_modules(self, native):
        mode = self.args.mode
        modules = [m for m in MODULES if not self.args.module or m in self.args.module]
        modules = [m for m in modules if m not in OPTIONAL or natively_good(native, m)]

        def one(module):
            return module, *self.regrtest(mode, module, f"{mode}.{module}")

        with ThreadPoolExecutor(2) as pool:
            return {module: {"tests": tests, "note": note} for module, tests, note in pool.map(one, modules)}

    def fails_alone(self, mode, module, test):
        count = 0
        for _ in range(RERUNS):
            tests, note = self.regrtest(mode, module, f"again.{mode}.{module}", [test])
            count += tests.get(test) != "ok" or note is not None
        return count

    def compare(self, native, mine):
        """Returns the number of tests lost. Prints each."""
        lost = 0
        for module, result in mine.items():
            passed = [t for t, verdict in native[module]["tests"].items() if verdict == "ok"]
            missing = [t for t in passed if result["tests"].get(t) != "ok"]
            print(f"{module}: {len(passed) - len(missing)} of {len(passed)} native passes pass")
            if result["note"]:
                print(f"  {result['note']}")
                lost += 1
            if not result["tests"]:
                lost += len(missing)
                continue
            for number, test in enumerate(missing):
                verdict = result["tests"].get(test, "not run")
                if number < RERUNS_MAX:
                    under, natively = (self.fails_alone(m, module, test) for m in (self.args.mode, "native"))
                    print(f"  LOST {test}: {verdict}; alone {under} of {RERUNS} fail, natively {natively}")
                    lost += natively == 0
                else:
                    print(f"  LOST {test}: {verdict}")
                    lost += 1
        return lost


def skip(text):
    print(f"SKIP: {text}")
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True, choices=("native", "default", "first-byte"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--taut", default="build/release/taut")
    parser.add_argument("--module", action="append", choices=MODULES)
    args = parser.parse_args()
    args.taut = os.path.abspath(args.taut)
    if not os.path.exists("/usr/lib/python3.11/test/test_socket.py"):
        skip("not installed: apt-get install libpython3.11-testsuite")
    prefix = namespace()
    if not prefix:
        skip("host gives no network namespace")
    run = Run(args, prefix)
    native_path, native = run.out / "native.json", None
    if args.mode != "native":
        if not native_path.exists():
            print(f"run.py: {native_path} is not there: run --mode native first", file=sys.stderr)
            return 2
        native = json.loads(native_path.read_text(encoding="utf-8"))
    mine = run.all_modules(native)
    with open(run.out / f"{args.mode}.json", "w", encoding="utf-8") as file:
        json.dump(mine, file, indent=1)
    if args.mode == "native":
        bad = 0
        for module, result in mine.items():
            passed = sum(verdict == "ok" for verdict in result["tests"].values())
            failed = [t for t, verdict in result["tests"].items() if verdict == "failed"]
            print(f"{module}: {passed} pass, {len(failed)} fail natively", *failed, result["note"] or "")
            if module not in OPTIONAL:
                bad += passed == 0 or result["note"] is not None
        return 1 if bad else 0
    lost = run.compare(native, mine)
    # No floor: most tests send all they have before the other end, a thread of the same process, reads at all.
    share = ["--share", "95", "--floor", "0"] if args.mode == "first-byte" else []
    bytes_moved = subprocess.run([PYTHON, STATS, run.stats, *share], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(bytes_moved.stdout.strip())
    print(f"{lost} lost")
    return 1 if lost or bytes_moved.returncode else 0


sys.exit(main())
