#!/usr/bin/env python3
"""Simulates steps of up to 1,000 ranks in virtual time (tests/simulation), compares them with docs/scale.py, and prints the
tables of docs/internals/scaling.md.

    scripts/simulate.py [--tool target/release/simulation] [--seed 1] [--small]

Fails where a step without drawn numbers takes a tenth more or less than the model says, or one with drawn numbers more than a
half, or where a rank takes more than 64 MiB beyond its weights, gradients and part of the state.
"""

import argparse
import datetime
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Gigabits a second, microseconds of latency, microseconds of a message.
NETWORKS = [(10, 50, 5), (100, 10, 1), (400, 3, 0.5)]
USUAL = NETWORKS[1]
MIB = 1 << 20


class Simulator:
    def __init__(self, asked):
        self.asked = asked
        self.problems = []

    def run(self, ranks, variables=16, size=MIB, network=USUAL, compute_us=0, spread=0.2, *more):
        gbits, latency, message = network
        words = ["--ranks", ranks, "--variables", variables, "--bytes", size, "--gbits", gbits, "--latency-us", latency,
                 "--message-us", message, "--compute-us", compute_us, "--spread", spread, "--seed", self.asked.seed, *more]
        ran = subprocess.run([self.asked.tool, *map(str, words)], capture_output=True, text=True)
        if ran.returncode != 0:
            sys.exit(f"simulation {' '.join(map(str, words))}: {ran.stderr}")
        row = json.loads(ran.stdout)
        row["kinds"] = {kind["kind"]: kind for kind in row["kinds"]}
        return row

    def compared(self, ranks, variables=16, size=MIB, network=USUAL, compute_us=0, spread=0.2):
        """A simulated step, and what the model says: in milliseconds."""
        row = self.run(ranks, variables, size, network, compute_us, spread)
        row["model_ms"] = predicted(size, network, compute_us, [ranks])["steps"][0]["step_ms"]
        row["step_ms"] = row["step_us"] / 1e3
        row["ratio"] = row["step_ms"] / row["model_ms"] if ranks > 1 else 1
        allowed = 0.1 if spread == 0 else 0.5
        if abs(row["ratio"] - 1) > allowed:
            self.problems.append(f"{ranks} ranks, {variables} variables, {size} bytes, spread {spread}: the simulated step "
                                 f"takes {row['ratio']:.2f} of the model's")
        return row


def predicted(size, network, compute_us, ranks):
    gbits, latency, message = network
    # Updates are work of the processor, which passes no virtual time.
    words = ["--gradient-mb", size / 1e6, "--compute-ms", max(compute_us / 1e3, 1e-6), "--update-gbs", 1e6, "--own-input", "--gbits",
             gbits, "--latency-us", latency, "--message-us", message, "--processes", ",".join(map(str, ranks)), "--json"]
    said = subprocess.run([sys.executable, ROOT / "docs/scale.py", *map(str, words)], check=True, capture_output=True)
    return json.loads(said.stdout)["networks"][0]


def heading(words):
    print("\n| " + " | ".join(words) + " |\n|" + "---:|" * len(words))


def line(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def rounded(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def growth(simulator, all_ranks):
    """How a step grows with ranks. Returns the rows."""
    heading(["ranks", "step, ms", "model, ms", "ratio", "nothing drawn", "votes", "all-to-all", "all-gather", "KB sent"])
    rows = []
    for ranks in all_ranks:
        row = simulator.compared(ranks)
        even = simulator.compared(ranks, spread=0)
        kinds = row["kinds"]
        sent = sum(kind["bytes_of_all"] for kind in kinds.values()) / ranks / 1e3
        messages = [f"{kinds[name]['messages']:.0f}" for name in ("votes", "all-to-all", "all-gather")]
        line(ranks, f"{row['step_ms']:.2f}", f"{row['model_ms']:.2f}", f"{row['ratio']:.2f}", f"{even['ratio']:.2f}",
             *messages, f"{sent:,.0f}")
        rows.append(row)
    return rows


def orders(few, many):
    """What all ranks send together grows as a power of their number."""
    heading(["sent by all ranks", f"messages, {few['ranks']}", f"{many['ranks']} ranks", "power", f"MB, {few['ranks']}",
             f"{many['ranks']} ranks", "power"])
    ratio = math.log(many["ranks"] / few["ranks"])
    for name, kind in few["kinds"].items():
        other = many["kinds"][name]
        cells = []
        for field, scale in (("messages_of_all", 1), ("bytes_of_all", 1e6)):
            if kind[field] and other[field]:
                power = math.log(other[field] / kind[field]) / ratio
                cells += [rounded(kind[field] / scale), rounded(other[field] / scale), f"{power:.2f}"]
        if cells:
            line(name, *cells)


def sizes(simulator, settings):
    heading(["ranks", "variables", "MiB", "step, ms", "model, ms", "ratio", "rounds"])
    for ranks, variables, size in settings:
        row = simulator.compared(ranks, variables, size)
        line(ranks, variables, f"{size / MIB:g}", f"{row['step_ms']:.2f}", f"{row['model_ms']:.2f}", f"{row['ratio']:.2f}",
             f"{row['kinds']['all-to-all']['calls']:.0f}")


def memory(simulator, settings):
    """Less than a mebibyte of weights, so that nothing is mapped from the system past the allocator."""
    heading(["ranks", "variables", "weights, KB", "needed, MB", "taken, MB", "beyond, MB"])
    for ranks, variables in settings:
        size = variables * 4 * max(1, 900_000 // variables // 4)
        row = simulator.run(ranks, variables, size, USUAL, 0, 0.2, "--steps", 1)
        beyond = row["memory"] - row["memory_needed"]
        line(ranks, variables, f"{size / 1e3:,.0f}", f"{row['memory_needed'] / 1e6:.2f}", f"{row['memory'] / 1e6:.2f}",
             f"{beyond / 1e6:.2f}")
        if beyond > 64 * MIB:
            simulator.problems.append(f"{ranks} ranks, {variables} variables: {beyond} bytes beyond what is needed")


def break_even(simulator, all_ranks, compute_us):
    heading(["Gbit/s, latency, message", *(f"{ranks} ranks" for ranks in all_ranks), "below a half from", "the model says"])
    for network in NETWORKS:
        model = predicted(MIB, network, compute_us, all_ranks)
        cells, below, above = [], None, 1
        for ranks in all_ranks:
            row = simulator.compared(ranks, network=network, compute_us=compute_us)
            efficiency = compute_us / 1e3 / row["step_ms"]
            cells.append(f"{efficiency:.0%}")
            if efficiency < 0.5:
                below = below or ranks
            elif below is None:
                above = ranks
        said = f"{above} to {below}" if below else f"more than {above}"
        line("{:g}, {:g} µs, {:g} µs".format(*network), *cells, said, model["stops_paying"] or "never")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "target/release/simulation", help="the simulator")
    parser.add_argument("--seed", type=int, default=1, help="what is drawn depends on it (default: 1)")
    parser.add_argument("--small", action="store_true", help="up to 32 ranks, in seconds")
    asked = parser.parse_args()
    simulator = Simulator(asked)
    print(f"simulated, seed {asked.seed}, {datetime.date.today()}")
    small = asked.small
    rows = growth(simulator, [1, 4, 32] if small else [1, 2, 4, 16, 64, 100, 256, 1000])
    orders(rows[1] if small else rows[4], rows[-1])
    sizes(simulator, [(16, 100, MIB)] if small else
          [(64, 1, MIB // 2), (64, 1000, MIB), (16, 10_000, MIB), (64, 16, MIB // 16), (64, 16, 8 * MIB), (16, 64, 40 * MIB)])
    memory(simulator, [(16, 100)] if small else
           [(8, 16), (64, 16), (256, 16), (1000, 16), (8, 1000), (64, 1000), (256, 1000), (8, 10_000), (32, 10_000)])
    break_even(simulator, [2, 32] if small else [2, 4, 16, 64, 256, 512, 1000], 2000)
    for problem in simulator.problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(simulator.problems))


if __name__ == "__main__":
    main()
