#!/usr/bin/env python3
"""Measures updates beside the loops that an expert writes by hand, and writes the table of docs/internals/updates.md.

    benches/peers/loops.py [--prefix FOLDER] [--rounds N] [--elements LIST] [--output FILE] [--busy]

The program loops does both in one process, alternately; a cell is their time divided by ours, the median of
the rounds: above 1 ours is faster. Of each processor the document keeps one table, the latest. A machine on
which other programs run is refused, unless --busy is given: then nothing is written.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

from document import processor, ready, with_machine
from participants import BUILD, ROOT, build_native
from quiet import MOST, busy_share
from spread import Spread

REPLICAS = [1, 2, 4, 8]
# What is compared: rule, type of the gradients, with or without clipping.
KINDS = [
    ("sgd", "float32", "free"),
    ("momentum", "float32", "free"),
    ("adamw", "float32", "free"),
    ("sgd", "float32", "clip"),
    ("momentum", "float32", "clip"),
    ("adamw", "float32", "clip"),
    ("adamw", "bfloat16", "free"),
]
MEBI = 1 << 20
# What both loops use of a processor, by its flag; the first that it has.
INSTRUCTIONS = [("avx512dq", "AVX-512"), ("avx2", "AVX2")]


def measure(kind, elements, replicas, rounds):
    """The rounds of one cell: microseconds, ours and theirs."""
    command = [BUILD / "native" / "loops", kind[0], elements, replicas, kind[1], kind[2], 1, rounds]
    # What OpenMP's threads would burn after a loop belongs to whoever comes next.
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    ended = subprocess.run(
        [str(part) for part in command], env=environment, check=True, capture_output=True, text=True
    )
    rounds = [json.loads(line) for line in ended.stdout.splitlines()]
    problems = [answer["error"] for answer in rounds if "error" in answer]
    if problems:
        sys.exit(f"loops: {problems[0]}")
    return rounds


def cell(rounds):
    """A cell of the table, and the microseconds of ours."""
    ratio = Spread([answer["theirs"] / answer["ours"] for answer in rounds])
    ours = Spread([answer["ours"] for answer in rounds]).middle
    print(f"    {ratio.middle:.2f} ({ratio.low:.2f} to {ratio.high:.2f}), ours {ours:,.0f} µs", file=sys.stderr)
    return f"{ratio.middle:.2f} ({ratio.low:.2f} to {ratio.high:.2f})", ours


def named(size):
    return f"{size // MEBI} Mi" if size >= MEBI else f"{size // 1024} Ki"


def head(first):
    names = " | ".join(f"R = {count}" for count in REPLICAS)
    return [f"| {first} | elements | {names} |", "|---|---:|" + "---:|" * len(REPLICAS)]


def table(sizes, rounds):
    lines, ours = head("update"), {}
    for kind in KINDS:
        name = kind[0] + (", clipped" if kind[2] == "clip" else "")
        name += ", bfloat16 gradients" if kind[1] == "bfloat16" else ""
        for size in sizes:
            print(f"{name}, {named(size)}", file=sys.stderr)
            cells, ours[kind, size] = zip(*[cell(measure(kind, size, replicas, rounds)) for replicas in REPLICAS])
            lines.append(f"| {name} | {named(size)} | " + " | ".join(cells) + " |")
    return "\n".join(lines + ["", *halves(sizes, ours)])


def halves(sizes, ours):
    """How many times as fast ours is with gradients of 16 bits, and at most where memory decides: by the bytes of an
    element, of which weights and two states are read and written."""
    lines = head("float32's time by bfloat16's")
    for size in sizes:
        both = zip(*[ours[("adamw", dtype, "free"), size] for dtype in ("float32", "bfloat16")])
        lines.append(f"| adamw | {named(size)} | " + " | ".join(f"{wide / narrow:.2f}" for wide, narrow in both) + " |")
    most = [(24 + 4 * count) / (24 + 2 * count) for count in REPLICAS]
    return [*lines, "| by the bytes | | " + " | ".join(f"{ratio:.2f}" for ratio in most) + " |"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=pathlib.Path, default=ROOT / "build" / "prefix")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--elements", default=",".join(str(count * MEBI) for count in (1, 4, 16, 64)))
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--busy", action="store_true")
    asked = parser.parse_args()
    count = os.cpu_count()
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    instructions = next((name for flag, name in INSTRUCTIONS if flag in flags), "plain C")
    machine = f"{processor()}, {count}, {instructions}"
    if asked.output is not None and not asked.busy:
        ready(asked.output, "loops", machine)
    sizes = [int(size) for size in asked.elements.split(",")]
    build_native(asked.prefix)
    busy = busy_share()
    if busy > MOST and not asked.busy:
        sys.exit(
            f"loops: other programs use {100 * busy:.0f} % of the processors' time; what is measured now says "
            "little. Wait, or give --busy, and nothing is written"
        )
    rows = table(sizes, asked.rounds)
    day = datetime.date.today().isoformat()
    said = f"{processor()}, {count} processors, {instructions}, {day}, {asked.rounds} rounds; others used {100 * busy:.0f} % before."
    print(f"{said}\n\n{rows}")
    if asked.output is not None and not asked.busy:
        document = asked.output.read_text()
        asked.output.write_text(with_machine(document, "loops", machine, f"{said}\n\n{rows}"))


if __name__ == "__main__":
    main()
