#!/usr/bin/env python3
"""Runs the training of tests/one_sha in all settings, and demands one SHA-256 of its weights, that of expected.txt.

    scripts/one_sha.py PROGRAM [--small] [--output PAGE] [--only SYSTEM]

PROGRAM is one_sha of this machine. The systems are this one, with each instruction set of its processor and with ranks as
threads and as processes, and, without --small, those for which other scripts of this folder build the program. Each setting
also resumes from the checkpoints of the one before, whatever that was. What cannot run on this machine is named. --output:
writes the table of that page, docs/internals/one-sha.md. --only: one of linux, musl, windows, aarch64 and riscv64; the
rows of the others stay as they are.
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"
SETS = ["baseline", "avx2", "avx512"] if platform.machine() == "x86_64" else ["baseline"]
LACKS = 77
# Scripts that build the program for another system and run it, by the name of the system.
ELSEWHERE = {"musl": ["musl.sh"], "windows": ["windows.sh"], "aarch64": ["cross.sh", "aarch64"], "riscv64": ["cross.sh", "riscv64"]}
LINE = re.compile(r"(\S+) (\S+) (threads|processes) (\d+) (\d+) ([0-9a-f]{64}) ([0-9a-f]{64}|-)")
HOW = {
    "linux baseline": "SSE2",
    "linux avx2": "AVX2",
    "linux avx512": "AVX-512",
    "musl baseline": "SSE2",
    "musl avx2": "AVX2",
    "musl avx512": "AVX-512",
    "windows baseline": "SSE2, under wine",
    "windows avx2": "AVX2, under wine",
    "windows avx512": "AVX-512, under wine",
    "aarch64 baseline": "NEON, under qemu",
    "riscv64 baseline": "RV64GC, under qemu",
}


class Settings:
    def __init__(self, expected):
        self.expected = expected
        self.seen = []  # system, set, kind, replicas, ranks
        self.left_out = {}
        self.failed = []

    def read(self, name, output, code):
        """Takes the lines of a run, and what it says of sets that are missing."""
        for line in output.splitlines():
            if found := LINE.fullmatch(line.strip()):
                system, instructions, kind, replicas, ranks, sha, resumed = found.groups()
                self.seen.append((system, instructions, kind, int(replicas), int(ranks)))
                if sha != self.expected or resumed not in ("-", self.expected):
                    self.failed.append(f"{line.strip()}; expected {self.expected}")
            elif "SKIPPED: " in line:
                self.left_out[line.split(": SKIPPED: ")[0]] = line.split("SKIPPED: ")[1]
        if code != 0:
            self.failed.append(f"{name} ended with {code}: {output[-2000:]}")


def here(settings, program, folder, small):
    """The settings of this machine's own library."""
    shapes = [("threads", "1 8 1 3"), ("processes", "1 8 2 3")]
    if small:
        shapes = [("threads", "1 3 1 2"), ("processes", "8 8 3 3")]
    for instructions in SETS:
        for kind, ranges in shapes:
            command = [program, "linux", settings.expected, kind, *ranges.split()]
            environment = os.environ | {"UMBO_INSTRUCTION_SET": instructions}
            done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
            if done.returncode == LACKS:
                settings.left_out[f"linux {instructions}"] = "the processor lacks it"
                break
            settings.read(f"linux {instructions} {kind}", done.stdout + done.stderr, done.returncode)


def elsewhere(settings, only):
    for system, (script, *which) in ELSEWHERE.items():
        if only not in (None, system):
            continue
        command = [ROOT / "scripts" / script, *which, "one-sha", settings.expected]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        settings.read(system, done.stdout, done.returncode)
        if not any(seen[0] == system for seen in settings.seen) and system not in settings.left_out:
            settings.failed.append(f"{system}: nothing ran: {done.stdout[-2000:]}")


def span(numbers):
    return f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else str(*numbers)


HEAD = ["| system | instructions | ranks are | replicas of a rank | ranks | settings |", "|---|---|---|---|---|---:|"]


def rows_of(settings):
    groups = {}
    for seen in settings.seen:
        groups.setdefault(seen[:3], []).append(seen)
    for (system, instructions, kind), group in groups.items():
        cells = [system, HOW.get(f"{system} {instructions}", instructions), kind, span({it[3] for it in group}),
                 span({it[4] for it in group}), len(group)]
        yield "| " + " | ".join(map(str, cells)) + " |"
    for name, why in settings.left_out.items():
        system, _, instructions = name.partition(" ")
        yield f"| {system} | {HOW.get(name, instructions or '-')} | not on this machine: {why} | - | - | 0 |"


def write(page, settings, only):
    """Puts the rows of what ran into the table, in the place of those of the same systems."""
    page.parent.mkdir(parents=True, exist_ok=True)
    text = (page if page.exists() else ROOT / "docs/internals/one-sha.md").read_text()
    before, rest = text.split(BEGIN + "\n")
    old, after = rest.split(END)
    replaced = (only, "system") if only else ("system", "linux", *ELSEWHERE)
    kept = [row for row in old.splitlines() if row.startswith("| ") and row.split(" | ")[0][2:] not in replaced]
    order = ["linux", *ELSEWHERE]
    rows = sorted([*kept, *rows_of(settings)], key=lambda row: order.index(row.split(" | ")[0][2:]))
    count = sum(int(row.split(" | ")[-1].rstrip(" |")) for row in rows)
    table = "\n".join([f"{count} settings gave `{settings.expected}`:", "", *HEAD, *rows, ""])
    page.write_text(before + BEGIN + "\n" + table + END + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--only", choices=["linux", *ELSEWHERE])
    given = parser.parse_args()
    settings = Settings((ROOT / "tests/one_sha/expected.txt").read_text().strip())
    # The scripts for other systems run there, too: the checkpoints are what settings hand on.
    folder = pathlib.Path("run/one_sha").resolve() if given.small else ROOT / "build/one_sha"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if given.only in (None, "linux"):
        here(settings, given.program, folder, given.small)
    if not given.small:
        elsewhere(settings, given.only)
    for name, why in settings.left_out.items():
        print(f"one-sha: {name} did not run: {why}")
        if listed := os.environ.get("UMBO_SKIPS"):
            with open(listed, "a", encoding="utf-8") as file:
                file.write(f"one-sha: {name}: {why}\n")
    if not settings.seen:
        settings.failed.append("nothing ran")
    if given.output and not settings.failed:
        write(given.output, settings, given.only)
    print(f"one-sha: {len(settings.seen)} settings, {len(settings.failed)} failed")
    print("\n".join(settings.failed))
    return 1 if settings.failed else 0


if __name__ == "__main__":
    sys.exit(main())
