#!/usr/bin/env python3
"""Measures Umbo beside its peers and writes docs/internals/benchmarks.md, or compares with what stands there.

    benches/peers/run.py [--prefix FOLDER] [--rounds N] [--only TEXT] [--output FILE] [--busy] [--check]

Each participant is a process of its own. In a round all of a comparison take one turn after the
other, in an order that changes from round to round, so that all see the same machine; ratios are
taken within rounds. What cannot be had or measured is said in the result. The variable
PEER_ELEMENTS of the environment sets the elements of a gradient, 16 Mi otherwise.
"""

import argparse
import dataclasses
import pathlib
import sys

import document
import participants
import quiet
from participants import ELEMENTS, ROOT, SAMPLES
from spread import Spread, orders

BYTES = str(4 * ELEMENTS)
SIZE = ["--dtype", "float32", "--from", BYTES, "--to", BYTES, "--rounds", "2"]
INPUT = ["input", "--samples", str(SAMPLES), "--rounds", "3"]
REDUCE = ["reduce", "--op", "sum", *SIZE, "--replicas"]
UPDATE = ["update", "--rule", "adam", *SIZE, "--replicas", "4"]
RUN = ["run", "--rounds", "5"]


@dataclasses.dataclass
class Comparison:
    """Workloads that do the same. `rows` pairs one of ours with a peer's name and workload, and
    says how the peer does it. Ours is a workload of the participant Umbo, or None where `umbo
    bench` measures it. `probe` is what `umbo bench` is given to measure the probe, or that too is a
    workload of the participant."""

    name: str
    rows: list
    probe: list | str
    more_is_better: bool = False


COMPARISONS = [
    Comparison(
        "input, shuffled",
        [
            (None, "TensorFlow", "input, shuffled, eager", "loop eager"),
            (None, "TensorFlow", "input, shuffled, graph", "loop in a graph"),
        ],
        INPUT,
        True,
    ),
    Comparison(
        "input, in order",
        [
            (None, "TensorFlow", "input, in order, eager", "loop eager"),
            (None, "TensorFlow", "input, in order, graph", "loop in a graph"),
        ],
        [*INPUT, "--no-shuffle"],
        True,
    ),
    Comparison("empty run, 2 replicas", [(None, "TensorFlow", "run", "")], RUN),
    Comparison(
        "reduce, SUM, 4 replicas, into a new tensor",
        [
            ("reduce of 4, new tensor", "TensorFlow", "reduce", ""),
            ("reduce of 4, new tensor", "PyTorch", "reduce, new", ""),
        ],
        [*REDUCE, "4"],
    ),
    Comparison(
        "reduce, SUM, 4 replicas, into one used again",
        [
            ("reduce of 4", "TensorFlow", "reduce", "into a new one"),
            ("reduce of 4", "PyTorch", "reduce", ""),
            ("reduce of 4", "OpenMP", "reduce", ""),
        ],
        [*REDUCE, "4"],
    ),
    Comparison(
        "reduce, SUM, 2 replicas, into one used again",
        [
            ("reduce of 2", "Open MPI", "reduce", "Reduce"),
            ("reduce of 2", "Open MPI", "all-reduce", "Allreduce"),
        ],
        [*REDUCE, "2"],
    ),
    Comparison(
        "reduce and AdamW, 4 replicas",
        [
            ("adamw", "TensorFlow", "adamw", ""),
            ("adamw", "PyTorch", "adamw, added in place", "added in place, fused"),
            ("adamw", "PyTorch", "adamw, sum()", "sum() and fused"),
            ("adamw", "DeepSpeed", "adamw", ""),
            ("adamw", "OpenMP", "adamw", "one loop"),
        ],
        UPDATE,
    ),
    Comparison("reduce and Adam, 4 replicas", [("adam", "TensorFlow", "adam", "")], UPDATE),
] + [
    Comparison(
        f"training, {title}, {batch} examples a replica",
        [
            (f"train, {rule}, {batch}", peer, f"train, {rule}, {batch}", "")
            for peer in ("TensorFlow", "TensorFlow, one thread an operation")
        ],
        f"train probe, {batch}",
        True,
    )
    for rule, title in (("sgd", "SGD"), ("adam", "Adam"))
    for batch in (64, 256)
]


def compare(comparison, started, bench, rounds):
    """The rows of the result, and what went wrong. A turn that failed once is not asked for
    again."""
    prober = started["Umbo"] if isinstance(comparison.probe, str) else bench
    turns = {("probe",): lambda: prober.turn(comparison.probe)}
    for own, peer, workload, _ in comparison.rows:
        for name, asked in (("Umbo", own), (peer, workload)):
            if asked is not None and name in started:
                turns[name, asked] = lambda name=name, asked=asked: started[name].turn(asked)
    answers, problems = {turn: [] for turn in turns}, []
    for order in orders(turns, rounds):
        for turn in order:
            answer = turns[turn]()
            if "error" in answer:
                problems.append(f"{', '.join(turn)}: {answer['error']}")
                del turns[turn], answers[turn]
            else:
                answers[turn].append(answer)
    rows = []
    for own, peer, workload, how in comparison.rows:
        mine = [each["value"] for each in answers.get(("Umbo", own) if own else ("probe",), [])]
        theirs = [each["value"] for each in answers.get((peer, workload), [])]
        probes = [each.get("probe", each["value"]) for each in answers.get(("probe",), [])]
        rows.append(row_of(comparison, f"{peer}, {how}" if how else peer, mine, theirs, probes))
    return rows, problems


def row_of(comparison, peer, mine, theirs, probes):
    def ratios(others):
        """How many times as good as the others' ours is, round by round."""
        pairs = zip(mine, others)
        return [a / b if comparison.more_is_better else b / a for a, b in pairs]

    def spread(values):
        return Spread(values) if values else None

    return {
        "name": comparison.name,
        "peer": peer,
        "unit": "samples/s" if comparison.more_is_better else "us",
        "ours": spread(mine),
        "theirs": spread(theirs),
        "ratio": spread(ratios(theirs)),
        "probe": spread(probes),
        "percent": spread([100 * ratio for ratio in ratios(probes)]),
    }


def main():
    parser = argparse.ArgumentParser(description="Measures Umbo beside its peers.")
    parser.add_argument("--prefix", default=str(ROOT / "build" / "prefix"), help="of the library")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="comparisons whose name contains this")
    parser.add_argument("--output", default=str(ROOT / "docs" / "internals" / "benchmarks.md"))
    parser.add_argument("--busy", action="store_true", help="write although other programs compute")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a percent of a probe fell"
    )
    options = parser.parse_args()
    output = pathlib.Path(options.output)
    before = document.ready(output) if not options.check else output.read_text() if output.exists() else ""
    wanted = [each for each in COMPARISONS if options.only in each.name]
    bench = participants.Bench(pathlib.Path(options.prefix) / "bin" / "umbo")
    participants.build_native(options.prefix)
    blas = participants.choose_kernels(options.prefix)
    names = {"Umbo": None} | {row[1]: None for each in wanted for row in each.rows}
    busy = [quiet.busy_share()]
    refuse_if_busy(busy, options)
    known = document.committed(before)
    if options.check and not known:
        sys.exit(f"{options.output} has no table '{document.heading()}': make bench-peers writes one")
    started, missing = participants.start(names)
    rows, problems = [], [f"{name}: {reason}" for name, reason in missing.items()]
    for comparison in wanted:
        print(f"measuring: {comparison.name}", file=sys.stderr)
        more, wrong = compare(comparison, started, bench, options.rounds)
        rows += more
        problems += [f"{comparison.name}: {problem}" for problem in wrong]
    for each in started.values():
        each.end()
    print(document.table(rows))
    busy.append(quiet.busy_share())
    refuse_if_busy(busy, options)
    if options.check:
        return check(rows, known)
    versions = list(dict.fromkeys(each.version for each in started.values()))
    text = document.section(rows, [*versions, blas], problems, busy, options.rounds)
    output.write_text(document.with_section(before, text))
    print(f"written: {options.output}", file=sys.stderr)


def refuse_if_busy(busy, options):
    if busy[-1] > quiet.MOST and not options.busy:
        share = f"{100 * busy[-1]:.0f} % of the processors' time"
        sys.exit(f"other programs use {share}: nothing is written or compared; --busy does it all the same")


def check(rows, known):
    """Fails where the percent of the probe is less than nine tenths of the committed one, also at its upper quartile."""
    fell = []
    for row in rows:
        before = known.get((row["name"], row["peer"]))
        if before is None or row["percent"] is None:
            continue
        if row["percent"].high < 0.9 * before:
            now = document.spread(row["percent"], ",.0f")
            fell.append(f"{row['name']}, {row['peer']}: {now} % of the probe, {before} % before")
    if fell:
        sys.exit("\n".join(fell))
    print("no percent of a probe has fallen by more than a tenth", file=sys.stderr)


main()
