#!/usr/bin/env python3
"""Measures torch.distributed's all_reduce over gloo beside MPI_Allreduce and what Umbo does, between processes of
this machine.

    scripts/bench_gloo.py [--tool build/release/bin/umbo] [--mpi build/mpi/mpich] [--python PYTHON] [--rounds 9]

Gloo and `umbo bench exchange` take turns, in the order of the round; each turn counts by its slowest process, and
shown are medians over the rounds, of times and of ratios within a round. Needs MPICH 5 (scripts/setup.sh mpi) and a
Python with torch, which is looked for.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HAS_GLOO = "import torch.distributed as d, sys; sys.exit(not (d.is_available() and d.is_gloo_available()))"


def worker(rank, size, meeting):
    """A process of gloo: for each line with bytes and turns, as many sums of as many bytes."""
    import torch
    import torch.distributed as distributed

    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    for line in sys.stdin:
        count, turns = map(int, line.split())
        numbers = torch.empty(count // 4)
        slowest = []
        # The first turn touches all memory and is not counted.
        for turn in range(turns + 1):
            numbers.fill_(rank + 1)
            distributed.barrier()
            start = time.perf_counter()
            distributed.all_reduce(numbers)
            own = torch.tensor([time.perf_counter() - start])
            distributed.all_reduce(own, op=distributed.ReduceOp.MAX)
            if not torch.all(numbers == size * (size + 1) // 2):
                sys.exit("the sum is wrong")
            if turn > 0:
                slowest.append(own.item())
        if rank == 0:
            print(json.dumps({"ms": statistics.median(slowest) * 1e3}), flush=True)
    distributed.destroy_process_group()


class Gloo:
    """Its processes, which wait for turns."""

    def __init__(self, python, size):
        self.folder = tempfile.TemporaryDirectory()
        command = [python, __file__, "--worker", "RANK", str(size), f"{self.folder.name}/meeting"]
        self.processes = [
            subprocess.Popen(
                [str(rank) if word == "RANK" else word for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]

    def milliseconds(self, count, turns):
        for process in self.processes:
            process.stdin.write(f"{count} {turns}\n")
            process.stdin.flush()
        line = self.processes[0].stdout.readline()
        if not line:
            sys.exit("a process of gloo has ended early; what it says is above")
        return json.loads(line)["ms"]

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(60)
        self.folder.cleanup()


def exchange(asked, count):
    """What the tool measures between as many processes."""
    library = str((asked.mpi / "lib").resolve())
    others = os.environ.get("LD_LIBRARY_PATH")
    environment = dict(os.environ, LD_LIBRARY_PATH=library if not others else f"{library}:{others}")
    command = [asked.mpi / "bin/mpiexec", "-n", asked.processes, asked.tool, "bench", "exchange"]
    command += ["--from", count, "--to", count, "--rounds", asked.turns, "--json"]
    command = [str(word) for word in command]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)} failed with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return json.loads(lines[0])


def python_with_torch(named):
    for python in [named] if named else [sys.executable, "/usr/bin/python3"]:
        if pathlib.Path(python).exists():
            if subprocess.run([python, "-c", HAS_GLOO], capture_output=True).returncode == 0:
                return python
    sys.exit("no Python with torch and gloo; install torch, and name its Python with --python")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build/release/bin/umbo", help="the program umbo")
    parser.add_argument("--mpi", type=pathlib.Path, default=ROOT / "build/mpi/mpich", help="where MPICH 5 is")
    parser.add_argument("--python", help="a Python with torch")
    parser.add_argument("--processes", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--mib", default="1,4,16,64", help="sizes (default: 1,4,16,64)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds (default: 9)")
    parser.add_argument("--turns", type=int, default=5, help="sums in a turn (default: 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each row")
    asked = parser.parse_args()
    if not asked.tool.exists():
        parser.error(f"no {asked.tool}; run make, or name the program with --tool")
    if not (asked.mpi / "bin/mpiexec").exists():
        parser.error(f"no mpiexec in {asked.mpi}; run scripts/setup.sh mpi, or name another with --mpi")
    if min(asked.rounds, asked.turns) < 1 or asked.processes < 2:
        parser.error("give 1 round and turn or more, and 2 processes or more")
    return asked


def measure(asked, gloo):
    sizes = [int(float(size) * (1 << 20)) // 4 * 4 for size in asked.mib.split(",")]
    times = {size: {"umbo": [], "gloo": [], "mpi": [], "copy": []} for size in sizes}
    for round_ in range(asked.rounds):
        for size, of_size in times.items():
            for turn in range(2):
                if (round_ + turn) % 2 == 0:
                    of_size["gloo"].append(gloo.milliseconds(size, asked.turns))
                else:
                    found = exchange(asked, size)
                    of_size["umbo"].append(found["exchange_ms"])
                    of_size["mpi"].append(found["allreduce_ms"])
                    of_size["copy"].append(found["copy_ms"])
    return times


def row_of(size, of_size):
    row = {"mib": size / (1 << 20)}
    for name, times in of_size.items():
        row[f"{name}_ms"] = statistics.median(times)
    for other in ("copy", "mpi", "gloo"):
        ratios = [ours / its for ours, its in zip(of_size["umbo"], of_size[other])]
        row[f"of_{other}"] = statistics.median(ratios)
    return row


def main():
    if "--worker" in sys.argv:
        at = sys.argv.index("--worker")
        return worker(int(sys.argv[at + 1]), int(sys.argv[at + 2]), sys.argv[at + 3])
    asked = arguments()
    python = python_with_torch(asked.python)
    version = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    gloo = Gloo(python, asked.processes)
    rows = [row_of(size, of_size) for size, of_size in measure(asked, gloo).items()]
    gloo.end()
    if asked.json:
        for row in rows:
            print(json.dumps(dict(row, torch=version, processes=asked.processes)))
        return None
    print(
        f"{asked.processes} processes on {len(os.sched_getaffinity(0))} processors, gloo of torch {version}, "
        f"{asked.rounds} rounds of {asked.turns}\n"
    )
    print("| MiB | copy ms | MPI_Allreduce ms | gloo ms | Umbo ms | Umbo of copy | of MPI_Allreduce | of gloo |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['mib']:g} | {row['copy_ms']:.2f} | {row['mpi_ms']:.2f} | {row['gloo_ms']:.2f} "
            f"| {row['umbo_ms']:.2f} | {row['of_copy']:.2f} | {row['of_mpi']:.2f} | {row['of_gloo']:.2f} |"
        )
    return None


if __name__ == "__main__":
    main()
