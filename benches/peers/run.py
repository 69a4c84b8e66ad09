#!/usr/bin/env python3
"""Measures Umbo beside its peers and writes docs/benchmarks.md.

    benches/peers/run.py [--umbo PATH] [--rounds N] [--only NAME] [--output FILE]

Each peer is a process of its own, in a private environment under build/peers. Rounds of the peer
and of `umbo bench` alternate, so that both see the same machine; ratios are the medians of the
ratios within rounds. What cannot be had or measured is said in the result.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "peers"
PEER = pathlib.Path(__file__).with_name("tensorflow_peer.py")
SAMPLES = 16384
ELEMENTS = 16 << 20
BYTES = str(4 * ELEMENTS)

INPUT = ["input", "--samples", str(SAMPLES), "--rounds", "3"]
REDUCE = ["reduce", "--dtype", "float32", "--op", "sum", "--replicas", "4", "--from", BYTES]
REDUCE += ["--to", BYTES, "--rounds", "2"]
UPDATE = ["update", "--dtype", "float32", "--rule", "adam", "--replicas", "4", "--from", BYTES]
UPDATE += ["--to", BYTES, "--rounds", "2"]
RUN = ["run", "--rounds", "5"]

# Of each comparison: its name, the peer's workload, ours, and whether more is better.
COMPARISONS = [
    ("input, shuffled; peer's loop eager", "input, shuffled, eager", INPUT, True),
    ("input, shuffled; peer's loop in a graph", "input, shuffled, graph", INPUT, True),
    ("input, in order; peer's loop eager", "input, in order, eager", INPUT + ["--no-shuffle"], True),
    (
        "input, in order; peer's loop in a graph",
        "input, in order, graph",
        INPUT + ["--no-shuffle"],
        True,
    ),
    ("empty run, 2 replicas", "run", RUN, False),
    ("reduce, SUM, 4 replicas, into a new tensor", "reduce", REDUCE + ["--fresh"], False),
    ("reduce, SUM, 4 replicas, into one used again", "reduce", REDUCE, False),
    ("reduce and Adam, 4 replicas", "update", UPDATE, False),
]


def environment():
    """The Python of the private environment, or why there is none."""
    python = BUILD / "venv" / "bin" / "python"
    if python.exists():
        tried = subprocess.run([python, "-c", "import tensorflow"], capture_output=True)
        if tried.returncode == 0:
            return python, None
    print("installing tensorflow-cpu into build/peers", file=sys.stderr)
    BUILD.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", BUILD / "venv"],
        [python, "-m", "pip", "install", "--quiet", "tensorflow-cpu"],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            return None, str(error)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            return None, lines[-1] if lines else f"exit status {done.returncode}"
    return python, None


class Peer:
    def __init__(self, python):
        variables = dict(os.environ, PEER_SAMPLES=str(SAMPLES), PEER_ELEMENTS=str(ELEMENTS))
        self.process = subprocess.Popen(
            [python, PEER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=variables,
        )
        self.version = self.read().get("version", "tensorflow, which did not start")

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the peer's process ended"}

    def measure(self, workload):
        try:
            print(workload, file=self.process.stdin, flush=True)
        except OSError as error:
            return {"error": str(error)}
        return self.read()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def ours(umbo, arguments):
    """What one run of `umbo bench` measured: the figure, the probe's, and percent of the roof."""
    command = [umbo, "bench", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[0] if lines else f"exit status {done.returncode}"}
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    row = rows[0]
    if arguments[0] == "run":
        row = next(row for row in rows if row["name"] == "empty run")
        probe = row["p50_us"] / row["ratio"]
        return {"value": row["p50_us"], "probe": probe, "percent": 100 / row["ratio"]}
    if arguments[0] == "input":
        return {
            "value": row["samples_per_second"],
            "probe": row["probe_samples_per_second"],
            "percent": row["percent_of_roof"],
        }
    return {"value": row["ours_us"], "probe": row["probe_us"], "percent": row["percent_of_roof"]}


def compare(umbo, peer, comparison, rounds):
    name, workload, arguments, more_is_better = comparison
    mine, theirs, probes, percents, ratios = [], [], [], [], []
    problems = set()
    for number in range(rounds):
        if number % 2 == 0:
            other, own = peer.measure(workload) if peer else None, ours(umbo, arguments)
        else:
            own, other = ours(umbo, arguments), peer.measure(workload) if peer else None
        problems.update(f"Umbo: {own['error']}" for _ in [0] if "error" in own)
        problems.update(f"the peer: {other['error']}" for _ in [0] if other and "error" in other)
        if "error" in own:
            break
        mine.append(own["value"])
        probes.append(own["probe"])
        percents.append(own["percent"])
        if other and "error" not in other:
            value = other.get("samples_per_second", other.get("us"))
            theirs.append(value)
            ratios.append(own["value"] / value if more_is_better else value / own["value"])
    result = {"name": name, "unit": "samples/s" if more_is_better else "us"}
    result["problems"] = sorted(problems)
    columns = {"ours": mine, "peer": theirs, "probe": probes, "percent": percents, "ratio": ratios}
    for column, values in columns.items():
        result[column] = statistics.median(values) if values else None
    result["least"], result["most"] = (min(ratios), max(ratios)) if ratios else (None, None)
    return result


def number(value, form=None):
    if value is None:
        return "not measured"
    return format(value, form or (",.2f" if value < 100 else ",.0f"))


def table(results):
    lines = [
        "| workload | unit | Umbo | peer | Umbo is faster by (least to most) | probe |"
        " percent of probe |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in results:
        ratio = number(row["ratio"], ".1f")
        if row["ratio"] is not None:
            ratio += f" ({row['least']:.1f} to {row['most']:.1f})"
        cells = [row["name"], row["unit"], number(row["ours"]), number(row["peer"])]
        cells += [ratio, number(row["probe"]), number(row["percent"], ",.0f")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def document(results, version, missing, load, rounds, own_version):
    count = os.cpu_count()
    lines = [
        "# Benchmarks beside peers",
        "",
        "Written by `make bench-peers`. Umbo and the peer are processes of their own and take turns;",
        f"of {rounds} rounds medians are shown, and ratios are taken within rounds.",
        "",
        f"- Machine: {processor()}, {count} processors, {platform.system()} {platform.release()}",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Versions: {own_version}; {version}; Python {platform.python_version()}",
        f"- Load average of one minute, before and after: {load[0]:.1f}, {load[1]:.1f}",
    ]
    if load[0] > 0.5 * count:
        lines += [
            "",
            "**Other programs used the processors at the same time.** The ratios come from rounds",
            "that took turns; the figures by themselves say little about this machine at rest.",
        ]
    lines += ["", table(results), "", "What is measured:", ""]
    lines += [
        f"- Input: a pass over {SAMPLES} rows of 784 float32, whole-array shuffle or none, batches",
        "  of 1024, over 2 replicas on logical CPUs; the consumer takes the elements and does",
        "  nothing with them. In order, Umbo's batches are views of the array, so that its figure",
        "  is one of handing over, not of copying. The probe copies the same rows in an order like",
        "  that of the workload, on one thread. The peer is",
        "  `from_tensor_slices`, `shuffle`, `batch` and `experimental_distribute_dataset`.",
        "- Empty run: `strategy.run` of a callback that does nothing, in the peer's case within a",
        "  `tf.function`. The probe is a hand-off between two threads that spin, there and back.",
        f"- Reduce: one tensor of {ELEMENTS} float32 for each replica to their sum on the parameter",
        "  device. The peer always makes a new tensor. The probe reads and writes the same memory.",
        f"- Reduce and Adam: {ELEMENTS} float32 variables, updated from the gradients of 4 replicas.",
        "  The peer is Keras' Adam, whose `apply_gradients` each replica calls. The probe reads and",
        "  writes the same memory.",
        "",
        "What could not be had or measured:",
        "",
    ]
    gaps = [f"TensorFlow: {missing}"] if missing else []
    gaps += [f"{row['name']}: {problem}" for row in results for problem in row["problems"]]
    gaps.append("PyTorch, JAX, MPI and DeepSpeed are not among the peers of this program.")
    gaps.append("Accelerators: none of this runs on one.")
    lines += [f"- {gap}" for gap in gaps]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Measures Umbo beside its peers.")
    parser.add_argument("--umbo", default=str(ROOT / "target" / "release" / "umbo"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="comparisons whose name contains this")
    parser.add_argument("--output", default=str(ROOT / "docs" / "benchmarks.md"))
    options = parser.parse_args()
    before = os.getloadavg()[0]
    python, missing = environment()
    peer = Peer(python) if python else None
    results = []
    for comparison in COMPARISONS:
        if options.only in comparison[0]:
            print(f"measuring: {comparison[0]}", file=sys.stderr)
            results.append(compare(options.umbo, peer, comparison, options.rounds))
    version = peer.version if peer else "tensorflow could not be had"
    if peer:
        peer.end()
    print(table(results))
    asked = subprocess.run([options.umbo, "--version"], capture_output=True, text=True)
    load = (before, os.getloadavg()[0])
    text = document(results, version, missing, load, options.rounds, asked.stdout.strip())
    pathlib.Path(options.output).write_text(text)
    print(f"written: {options.output}", file=sys.stderr)


main()
