#!/usr/bin/env python3
"""Measures engines alone and under Umbo, and writes the table into docs/engines.md.

    benches/engines/run.py [--prefix FOLDER] [--rounds N] [--processors N] [--only NETWORK] [--quick] [--output FILE]

Each participant is a process of its own. In a round all take a turn, in an order that changes from round to
round, so that all see the same machine; ratios are taken within rounds.
"""

import argparse
import datetime
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))

import document
import participants
from participants import Participant, Unavailable
from spread import Spread, medians_of, orders

BUILD = participants.ROOT / "build" / "engines" / "bench"
TITLES = {
    "mlp": "perceptron, 784, 500, 10",
    "cnn": "two convolutions, 28 x 28",
}


def build(prefix, build_type):
    configure = ["cmake", "-S", HERE, "-B", BUILD, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_BUILD_TYPE={build_type}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD], check=True, stdout=subprocess.DEVNULL)


def blas(threads):
    """OpenBLAS has threads beside an engine's own, and each pool slows the other down where both have several."""
    return {"OPENBLAS_NUM_THREADS": str(threads)}


def native(program, how, processors, environment=()):
    path = BUILD / program
    if not path.exists():
        raise Unavailable("it is not installed")
    log = "_".join([program, how, str(processors), *dict(environment).values()])
    return Participant([path, how, str(processors)], environment, log_name=log)


def ddp(processors):
    """The Python that has the same torch as LibTorch's programs: the system's."""
    python = pathlib.Path("/usr/bin/python3")
    find = "import sys, torch; sys.exit(not torch.distributed.is_gloo_available())"
    if subprocess.run([python, "-c", find], capture_output=True).returncode != 0:
        raise Unavailable("the system's Python has no torch with gloo")
    return Participant([python, HERE / "ddp.py", str(processors)], blas(1), log_name="ddp")


def measured(started, workload, rounds):
    """What each of the participants does in each round, in samples per second."""
    rates = {name: [] for name in started}
    for order in orders(started, rounds):
        for name in order:
            answer = started[name].turn(workload)
            if "error" in answer:
                raise Unavailable(f"{name}: {answer['error']}")
            rates[name].append(answer["value"])
    return rates


def row(engine, workload, rates):
    alone, others, ours = rates["1 thread"], rates.get("ddp"), rates["umbo"]
    # Whichever of the two pools serves this network better.
    threads = max(rates["threads"], rates["BLAS threads"], key=lambda of: Spread(of).middle)

    def times(of):
        return document.spread(Spread([a / b for a, b in zip(ours, of)]), ".2f") if of else "–"

    cells = [engine, TITLES[workload], document.number(Spread(ours).middle, ",.0f")]
    cells += [times(rates["umbo, 1 replica"]), times(alone), times(threads), times(others)]
    return "| " + " | ".join(cells) + " |"


def engine_rows(engine, program, workloads, processors, rounds, with_ddp):
    participants_of = {
        "1 thread": lambda: native(program, "alone", 1, blas(1)),
        "threads": lambda: native(program, "alone", processors, blas(1)),
        "BLAS threads": lambda: native(program, "alone", 1, blas(processors)),
        "umbo, 1 replica": lambda: native(program, "umbo", 1, blas(1)),
        "umbo": lambda: native(program, "umbo", processors),  # As it comes: the adapter sets the threads.
    }
    needed = set(participants_of)
    if with_ddp:
        participants_of["ddp"] = lambda: ddp(processors)
    started, version, said = {}, None, []
    try:
        for name, start in participants_of.items():
            try:
                started[name] = start()
                version = version or started[name].version
            except Unavailable as reason:
                said.append(f"{engine}, {name}: {reason}")
        if not needed <= started.keys():
            return [], said, version
        rows = []
        for workload in workloads:
            print(f"measuring: {engine}, {workload}", file=sys.stderr)
            try:
                rows.append(row(engine, workload, measured(started, workload, rounds)))
            except Unavailable as reason:
                said.append(str(reason))
        return rows, said, version
    finally:
        for each in started.values():
            each.end()


def main():
    parser = argparse.ArgumentParser(description="Measures engines alone and under Umbo.")
    parser.add_argument("--prefix", default=str(participants.ROOT / "build" / "prefix"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--processors", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=TITLES, help="measure this network alone")
    parser.add_argument("--quick", action="store_true", help="compile without optimisation, to try whether this runs")
    parser.add_argument("--output", default=str(participants.ROOT / "docs" / "engines.md"))
    options = parser.parse_args()
    count = options.processors
    machine = f"{document.processor()}, {count}"
    output = pathlib.Path(options.output)
    document.ready(output, "engines", machine)
    participants.BUILD.mkdir(parents=True, exist_ok=True)  # for the logs
    blas_said = participants.choose_kernels(options.prefix)
    build(options.prefix, "None" if options.quick else "Release")
    load = os.getloadavg()[0]
    lines = [
        f"| engine | network | samples/s on {count} replicas | to 1 replica | to the engine's 1 thread "
        f"| to its {count} threads | to DistributedDataParallel, {count} processes |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    problems, versions = [], []
    plans = (("LibTorch", "torch_engine", ("mlp", "cnn"), True), ("ggml", "ggml_engine", ("mlp",), False))
    for engine, program, workloads, with_ddp in plans:
        workloads = [each for each in workloads if options.only in (None, each)]
        rows, said, version = engine_rows(engine, program, workloads, count, options.rounds, with_ddp)
        lines += rows
        problems += said
        versions += [version] if version else []
    lines += [
        "",
        f"{document.processor()}, {count} processors, {datetime.date.today()}; {medians_of(options.rounds)}; "
        f"load average before: {load:.1f}.",
        f"With {', '.join(versions)}. {blas_said}.",
    ]
    lines += [f"Not measured: {problem}." for problem in problems]
    print("\n".join(lines))
    output.write_text(document.with_machine(output.read_text(), "engines", machine, "\n".join(lines)))
    print(f"written: {options.output}", file=sys.stderr)


main()
