#!/usr/bin/env python3
"""Runs every test many times, every second time beside three busy loops, and counts.

    scripts/flaky.py [--times N] [--minutes M] [--quickest SECONDS] [--slowest SECONDS] [BUILD]

A round runs the built programs themselves: each Rust test and each ctest that is not there to look at
sources or packages. The first round runs them all, the others those that take from --quickest to --slowest.
Counts are kept in build/flaky/COMMIT.json and are continued when it is run again, so that the rounds may be spread
over days; what a test printed when it failed lies beside them.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "flaky"
# What is the same each time: texts that are compiled or searched, and packages.
SAME_EACH_TIME = "^(header|abi|package|readme|docs)$"
# Models try every order of their threads each time.
WITHOUT_CHANCE = {"models"}
LONGEST = 1800


def standing():
    """The state of the sources, in one word."""
    told = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


class Counts:
    """How often each test has passed, quiet and beside busy loops, how often failed, and its shortest time."""

    def __init__(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.path = FOLDER / f"{standing()}.json"
        self.tests = json.loads(self.path.read_text()) if self.path.exists() else {}

    def add(self, name, passed, seconds, busy, output):
        test = self.tests.setdefault(name, {"quiet": 0, "busy": 0, "failed": 0, "seconds": seconds})
        if passed:
            test["busy" if busy else "quiet"] += 1
        else:
            test["failed"] += 1
            file = re.sub(r"[^\w.]+", "_", name)
            (FOLDER / f"{file}.{test['failed']}.txt").write_text(output)
            print(f"\nflaky: {name} failed{' while loops kept processors busy' if busy else ''}", flush=True)
        test["seconds"] = min(test["seconds"], seconds)

    def rounds(self):
        """How many rounds there were: as often as the test that ran most often."""
        return max((test["quiet"] + test["busy"] + test["failed"] for test in self.tests.values()), default=0)

    def within(self, prefix, seconds):
        """The tests that take so many seconds, of those whose names begin so; none where all are to be run."""
        quickest, slowest = seconds or (float("inf"), 0)
        names = (name for name, test in self.tests.items() if quickest <= test["seconds"] <= slowest)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def save(self):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.tests, indent=1))
        new.replace(self.path)


def rust_programs():
    """(name, executable, folder, whether it takes libtest's arguments) of each test program."""
    command = "cargo test --locked --release --workspace --no-run --message-format=json".split()
    built = ""
    for kind in ("--test *", "--lib --config tests/unit_tests.toml", "--bins --config tests/tool_unit_tests.toml"):
        built += subprocess.run(command + kind.split(), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    programs = []
    for message in map(json.loads, built.splitlines()):
        executable = message.get("executable")
        if not executable or not message["profile"]["test"]:
            continue
        manifest = pathlib.Path(message["manifest_path"])
        target = message["target"]["name"]
        package = tomllib.loads(manifest.read_text())
        tests = package.get("test", [])
        own = any(test["name"] == target and not test.get("harness", True) for test in tests)
        if target not in WITHOUT_CHANCE and message["target"]["kind"] != ["bench"]:
            programs.append((f"{package['package']['name']}::{target}", executable, manifest.parent, not own))
    return programs


def finished(command, folder):
    """Exit status and output of a program, which is ended where it takes too long."""
    # Only so does a stable libtest tell the times of its tests.
    environment = os.environ | {"RUSTC_BOOTSTRAP": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LONGEST)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        return None, (expired.stdout or b"").decode(errors="replace")


def run_rust(program, counts, seconds, busy):
    name, executable, folder, libtest = program
    prefix = f"rust {name} "
    tests = counts.within(prefix, seconds)
    if seconds and not tests:
        return
    start = time.monotonic()
    if not libtest:
        status, output = finished([executable], folder)
        counts.add(prefix + "whole", status == 0, time.monotonic() - start, busy, output)
        return
    command = [executable, "-Zunstable-options", "--report-time", "--format=json", "--exact", *tests]
    status, output = finished(command, folder)
    begun = set()
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if not isinstance(event, dict) or event.get("type") != "test":
            continue
        test = event["name"]
        if event["event"] == "started":
            begun.add(test)
        elif event["event"] in ("ok", "failed"):
            begun.discard(test)
            counts.add(prefix + test, event["event"] == "ok", event["exec_time"], busy, event.get("stdout", ""))
        else:
            begun.discard(test)
    # A signal, or a hang.
    for test in begun if status != 0 else ():
        counts.add(prefix + test, False, float(LONGEST), busy, f"the program ended with {status} meanwhile\n{output}")


def run_ctest(build, counts, seconds, busy):
    tests = counts.within("ctest ", seconds)
    if seconds and not tests:
        return
    junit = FOLDER / "ctest.xml"
    command = ["ctest", "--parallel", str(os.cpu_count()), "--label-exclude", SAME_EACH_TIME,
               "--output-junit", str(junit)]
    if tests:
        command += ["--tests-regex", "^(" + "|".join(map(re.escape, tests)) + ")$"]
    junit.unlink(missing_ok=True)
    finished(command, build)
    for case in xml.parse(junit).getroot().iter("testcase"):
        if case.get("status") in ("run", "fail"):
            output = case.findtext("system-out") or ""
            counts.add("ctest " + case.get("name"), case.get("status") == "run", float(case.get("time")), busy, output)


def report(counts, times):
    passed = collections.Counter()
    few = []
    for name, test in counts.tests.items():
        runs = test["quiet"] + test["busy"]
        passed[min(runs, times)] += 1
        if runs < times:
            few.append((test["seconds"], runs, name))
    for runs, tests in sorted(passed.items(), reverse=True):
        print(f"flaky: {tests} tests {runs} times")
    for seconds, runs, name in sorted(few, reverse=True)[:20]:
        print(f"  {name}: {runs} times, {seconds:.1f} s each")
    failed = {name: test["failed"] for name, test in counts.tests.items() if test["failed"]}
    for name, times_failed in sorted(failed.items(), key=lambda item: -item[1]):
        print(f"flaky: FAILED {times_failed} times: {name}")
    if not failed:
        print("flaky: no failures")
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after the round in which they end")
    parser.add_argument("--quickest", type=float, default=0, help="seconds; what takes less is run once")
    parser.add_argument("--slowest", type=float, default=0.2, help="seconds; what takes longer is run once")
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build" / "release")
    given = parser.parse_args()

    # Who ends this ends the busy loops with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    programs = rust_programs()
    counts = Counts()
    end = time.monotonic() + 60 * given.minutes
    while counts.rounds() < given.times and time.monotonic() < end:
        number = counts.rounds()
        seconds = (given.quickest, given.slowest) if number > 0 else None
        busy = number % 2 == 1
        loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3 if busy else 0)]
        try:
            run_ctest(given.build, counts, seconds, busy)
            for program in programs:
                run_rust(program, counts, seconds, busy)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        counts.save()
        print(f"\rflaky: {counts.rounds()} rounds of {given.times} ", end="", flush=True)
    print()
    sys.exit(0 if report(counts, given.times) else 1)


if __name__ == "__main__":
    main()
