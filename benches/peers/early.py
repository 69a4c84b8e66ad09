#!/usr/bin/env python3
"""Measures what an update gains that begins while the backward pass runs, and writes its table in docs/internals/updates.md.

    benches/peers/early.py [--prefix FOLDER] [--rounds N] [--mebi N] [--output FILE] [--busy]

The program early does all three ways in one process, alternately; a cell is the time of a step that is updated after the
backward pass divided by the other way's, the median of the rounds: above 1 the other way is faster. A machine on which
other programs run is refused, unless --busy is given: then nothing is written.
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

ROWS = [1, 8, 32, 128]
KIBI = [256, 1024, 4096]
WAYS = {"early": "in place", "kept": "into new arrays"}


def measure(mebi, kibi, rows, rounds):
    command = [str(part) for part in (BUILD / "native" / "early", mebi, kibi, rows, rounds)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    problems = [answer["error"] for answer in answers if "error" in answer]
    if problems:
        sys.exit(f"early: {problems[0]}")
    return answers


def table(mebi, rounds):
    names = " | ".join(f"{rows} rows" if rows > 1 else "1 row" for rows in ROWS)
    lines = [f"| a layer's weights | update while backward runs | {names} |", "|---:|---|" + "---:|" * len(ROWS)]
    for kibi in KIBI:
        answers = [measure(mebi, kibi, rows, rounds) for rows in ROWS]
        for way, name in WAYS.items():
            spreads = [Spread([answer["after"] / answer[way] for answer in of_rows]) for of_rows in answers]
            cells = [f"{spread.middle:.2f} ({spread.low:.2f} to {spread.high:.2f})" for spread in spreads]
            size = f"{kibi // 1024} Mi" if kibi >= 1024 else f"{kibi} Ki"
            lines.append(f"| {size} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=pathlib.Path, default=ROOT / "build" / "prefix")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mebi", type=int, default=128)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--busy", action="store_true")
    asked = parser.parse_args()
    machine = f"{processor()}, {os.cpu_count()}"
    if asked.output is not None and not asked.busy:
        ready(asked.output, "early", machine)
    build_native(asked.prefix)
    busy = busy_share()
    if busy > MOST and not asked.busy:
        sys.exit(
            f"early: other programs use {100 * busy:.0f} % of the processors' time; what is measured now says "
            "little. Wait, or give --busy, and nothing is written"
        )
    rows = table(asked.mebi, asked.rounds)
    day = datetime.date.today().isoformat()
    said = (
        f"{processor()}, {os.cpu_count()} processors, {day}, {asked.mebi} Mi weights, {asked.rounds} rounds; "
        f"others used {100 * busy:.0f} % before."
    )
    print(f"{said}\n\n{rows}")
    if asked.output is not None and not asked.busy:
        document = asked.output.read_text()
        asked.output.write_text(with_machine(document, "early", machine, f"{said}\n\n{rows}"))


if __name__ == "__main__":
    main()
