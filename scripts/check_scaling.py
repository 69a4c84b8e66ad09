#!/usr/bin/env python3
"""Holds the model of docs/internals/scaling.md against this machine: measures its constants, asks docs/scale.py what a step
of 1 to 4 processes takes, runs such steps, and prints both.

    scripts/check_scaling.py [--tool build/release/bin/umbo] [--mpi build/mpi/mpich] [--rounds 5]

The rounds take turns between all that is measured, and every number is a median over them. Each process has one
processor, also if it is alone. The model does not know that processes of one machine share its processors: where there are
more of them than processors, what is predicted is taken as many times as there are processes on one processor.
Needs MPICH 5 (scripts/setup.sh mpi) and taskset.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The ranks meet so often in a step: as it begins, as its run is committed, as an update announces itself, as
# gradients are exchanged, as new weights are, and as the update is committed.
MEETINGS = 6


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tool", type=pathlib.Path, help="the program umbo")
    parser.add_argument("--mpi", type=pathlib.Path, default=ROOT / "build/mpi/mpich", help="where MPICH 5 is")
    parser.add_argument("--processes", type=int, default=4, help="the most processes (default: 4)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--steps", type=int, default=60, help="steps in a run (default: 60)")
    parser.add_argument("--compute-ms", type=float, default=20, help="arithmetic of a step (default: 20)")
    parser.add_argument("--mib", type=str, default="4,16", help="sizes of the gradients (default: 4,16)")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each row")
    asked = parser.parse_args()
    asked.sizes = [int(size) << 20 for size in asked.mib.split(",")]
    if asked.tool is None:
        known = [ROOT / place for place in ("build/release/bin/umbo", "target/release/umbo")]
        asked.tool = next((place for place in known if place.exists()), None)
        if asked.tool is None:
            parser.error("no umbo was built; run make, or name it with --tool")
    if not (asked.mpi / "bin/mpiexec").exists():
        parser.error(f"no mpiexec in {asked.mpi}; run scripts/setup.sh mpi, or name another with --mpi")
    if shutil.which("taskset") is None:
        parser.error("no taskset, which gives each process its processor; install util-linux")
    if asked.rounds < 1 or asked.processes < 2 or min(asked.sizes) < 1:
        parser.error("give 1 round or more, 2 processes or more, and sizes of 1 MiB or more")
    return asked


class Machine:
    """Runs the tool, alone and as processes that MPI joins."""

    def __init__(self, asked):
        self.asked = asked
        library = str((asked.mpi / "lib").resolve())
        others = os.environ.get("LD_LIBRARY_PATH")
        path = library if not others else f"{library}:{others}"
        self.environment = dict(os.environ, LD_LIBRARY_PATH=path)
        self.processors = sorted(os.sched_getaffinity(0))

    def sharing(self, processes):
        """How many processes are on the processor that has the most."""
        return -(-processes // len(self.processors))

    def objects(self, processes, *words):
        """What the tool prints, as objects."""
        command = [str(self.asked.tool), *map(str, words), "--json"]
        if processes:
            alone, command = command, [str(self.asked.mpi / "bin/mpiexec")]
            for rank in range(processes):
                processor = self.processors[rank % len(self.processors)]
                command += [":"] * (rank > 0) + ["-n", "1", "taskset", "-c", str(processor), *alone]
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600)
        objects, decoder, rest = [], json.JSONDecoder(), ran.stdout.lstrip()
        while rest.startswith("{"):
            found, end = decoder.raw_decode(rest)
            objects.append(found)
            rest = rest[end:].lstrip()
        if ran.returncode != 0 or not objects:
            sys.exit(f"{' '.join(command)} failed with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return objects

    def training(self, processes, size, work):
        how = ["--work", work] if work else ["--compute-ms", self.asked.compute_ms]
        words = ["bench", "scaling", "--bytes", size, "--steps", self.asked.steps, *how]
        return self.objects(processes, *words)[0]

    def exchange(self, size):
        """An exchange between two processes, and what a vote between them takes."""
        rows = self.objects(2, "bench", "exchange", "--from", size, "--to", size, "--rounds", 9)
        return rows[0]["exchange_ms"], rows[0]["vote_us"]


def median_of(runs, field):
    return statistics.median(run[field] for run in runs)


def measure(machine, asked):
    """For each size the runs of each number of processes, and the exchanges between two; the small exchanges."""
    sizes = {size: {"runs": {}, "exchanges": []} for size in asked.sizes}
    small, work = [], None
    for round_ in range(asked.rounds):
        small.append(machine.exchange(1024))
        for size, of_size in sizes.items():
            counts = list(range(1, asked.processes + 1))
            # In turn, so that whatever else the machine does meets all alike.
            turn = round_ % len(counts)
            if work is None:
                work = machine.training(1, size, None)["work"]
            for processes in counts[turn:] + counts[:turn]:
                run = machine.training(processes, size, work)
                of_size["runs"].setdefault(processes, []).append(run)
            of_size["exchanges"].append(machine.exchange(size)[0])
    return sizes, small


def constants(of_size, small, size):
    """The model's constants, from runs of one process and exchanges between two."""
    alone = of_size["runs"][1]
    small_ms = statistics.median(time for time, _ in small)
    vote_us = statistics.median(vote for _, vote in small)
    # An exchange of few bytes is two votes and two messages, and a vote between two is a message and its latency.
    message_ms = min(small_ms / 4, vote_us / 1e3)
    latency_us = vote_us - message_ms * 1e3
    exchange_ms = statistics.median(of_size["exchanges"])
    on_wire_ms = max(exchange_ms - small_ms, 1e-3)
    update_ms = median_of(alone, "apply_ms")
    return {
        "gradient-mb": size / 1e6,
        "compute-ms": median_of(alone, "step_ms") - update_ms,
        "update-gbs": size / update_ms / 1e6,
        "message-us": message_ms * 1e3,
        "latency-us": latency_us,
        "votes": MEETINGS,
        "gbits": size / on_wire_ms * 8 / 1e6,
    }


def predicted(found, most):
    words = [word for name, value in found.items() for word in (f"--{name}", repr(value))]
    counts = ",".join(str(processes) for processes in range(1, most + 1))
    model = [sys.executable, str(ROOT / "docs/scale.py"), "--json", "--own-input", "--processes", counts, *words]
    said = json.loads(subprocess.run(model, check=True, capture_output=True, text=True).stdout)
    return {step["processes"]: step for step in said["networks"][0]["steps"]}


def main():
    asked = arguments()
    machine = Machine(asked)
    sizes, small = measure(machine, asked)
    rows = []
    for size, of_size in sizes.items():
        found = constants(of_size, small, size)
        steps = predicted(found, asked.processes)
        for processes, step in steps.items():
            runs = of_size["runs"][processes]
            share = machine.sharing(processes)
            rows.append(
                {
                    "mib": size >> 20,
                    "processes": processes,
                    "predicted_ms": step["step_ms"] * share,
                    "measured_ms": median_of(runs, "step_ms"),
                    "least_ms": min(run["step_ms"] for run in runs),
                    "most_ms": max(run["step_ms"] for run in runs),
                    "constants": found,
                }
            )
    if asked.json:
        for row in rows:
            print(json.dumps(row))
        return
    processors = len(machine.processors)
    print(f"{processors} processors, {asked.rounds} rounds of {asked.steps} steps; medians over the rounds\n")
    for size in sizes:
        found = next(row["constants"] for row in rows if row["mib"] == size >> 20)
        told = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
        print(f"constants with {size >> 20} MiB: {told}")
    print("\n| gradients, MiB | processes | predicted ms | measured ms (least to most) | measured / predicted |")
    print("|---|---|---|---|---|")
    for row in rows:
        shared = " (share processors)" if row["processes"] > processors else ""
        print(
            f"| {row['mib']} | {row['processes']}{shared} | {row['predicted_ms']:.1f} "
            f"| {row['measured_ms']:.1f} ({row['least_ms']:.1f} to {row['most_ms']:.1f}) "
            f"| {row['measured_ms'] / row['predicted_ms']:.2f} |"
        )


if __name__ == "__main__":
    main()
