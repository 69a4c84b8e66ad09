#!/usr/bin/env python3
"""Measures files of weights beside Python's safetensors, and beside a bare copy through the system's cache: loading into
memory that is there, restoring, saving.

    benches/peers/files.py [--prefix FOLDER] [--rounds N] [--sizes COUNTxBYTES,...]

In a process of its own with NumPy, cffi and safetensors; PyTorch is a second peer where it is installed. All read the
same bytes from the system's cache and take turns. Times are those of the clock, and in brackets of the processors: of
all threads of the process, waiting ones too. Ratios are taken within rounds.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

# What waits in PyTorch's threads would be in the way of the next turn.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

ROOT = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description="Measures files of weights beside Python's safetensors.")
parser.add_argument("--prefix", default=str(ROOT / "build" / "prefix"), help="of the library")
parser.add_argument("--rounds", type=int, default=11)
parser.add_argument("--sizes", default="1x67108864,200x1048576,10000x4096")
parser.add_argument("--folder", default=None, help="where the files are; a temporary one otherwise")
options = parser.parse_args()
os.environ["LIBUMBO_INCLUDE"] = f"{options.prefix}/include"
os.environ["LIBUMBO_FOLDER"] = f"{options.prefix}/lib"
sys.path.insert(0, str(ROOT / "docs" / "python"))

import numpy as np
import safetensors.numpy
from binding import array_of, check, ffi, lib, made, tensor_of
from spread import orders

try:
    import safetensors.torch
    import torch
except ImportError:
    torch = None


class Umbo:
    """Variables, and a checkpoint of them."""

    def __init__(self, arrays):
        strategy_options = ffi.new("umbo_strategy_options *", lib.UMBO_STRATEGY_OPTIONS_INIT)
        strategy_options.cpu_replicas = 2
        self.strategy = made("strategy", lib.umbo_strategy_create, strategy_options)
        self.checkpoint = made("checkpoint", lib.umbo_checkpoint_create, self.strategy)
        self.variables = {}
        for name, array in arrays.items():
            variable = made(
                "variable", lib.umbo_variable_create, self.strategy, name.encode(), tensor_of(array), ffi.NULL
            )
            check(lib.umbo_checkpoint_add_variable(self.checkpoint, ffi.NULL, variable))
            self.variables[name] = variable

    def load(self, path):
        check(lib.umbo_checkpoint_load_weights(self.checkpoint, path, ffi.NULL))

    def restore(self, path):
        check(lib.umbo_checkpoint_restore(self.checkpoint, path))

    def save(self, path):
        check(lib.umbo_checkpoint_save(self.checkpoint, path))

    def values(self):
        return {name: array_of(lib.umbo_variable_view, variable, ffi.NULL, lib.UMBO_DTYPE_NONE) for name, variable in self.variables.items()}


def load_numpy(path, targets):
    loaded = safetensors.numpy.load_file(path)
    for name, target in targets.items():
        np.copyto(target, loaded[name])


def load_torch(path, targets):
    loaded = safetensors.torch.load_file(path)
    for name, target in targets.items():
        target.copy_(loaded[name])


def save_numpy(path, arrays):
    """As safely as Umbo: beside the file, to the disk, and then in its place."""
    safetensors.numpy.save_file(arrays, f"{path}.partial")
    descriptor = os.open(f"{path}.partial", os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(f"{path}.partial", path)


def copied_from(path, targets):
    """Their bytes, as one thread reads them into memory that is there."""
    with open(path, "rb") as file:
        file.seek(-sum(target.nbytes for target in targets), os.SEEK_END)
        for target in targets:
            file.readinto(target)


def copied_to(path, arrays):
    """Their bytes alone, as one thread writes them; to the disk, and then in the place of the file."""
    with open(f"{path}.partial", "wb") as file:
        for array in arrays:
            file.write(array)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.partial", path)


def turns(contestants, rounds):
    """For each of the contestants its times, and of its processors, by rounds."""
    taken = {name: [] for name in contestants}
    for order in orders(contestants, rounds + 1):
        for name in order:
            time.sleep(0.02)
            processors, clock = time.process_time(), time.perf_counter()
            contestants[name]()
            taken[name].append((time.perf_counter() - clock, time.process_time() - processors))
    return {name: of[1:] for name, of in taken.items()}


def tell(title, taken, peer):
    for name, of in taken.items():
        cells = []
        for which in (0, 1):
            middle = statistics.median(one[which] for one in of)
            ratio = statistics.median(one[which] / other[which] for one, other in zip(of, taken[peer]))
            cells.append(f"{1e3 * middle:9.2f} ms  x {ratio:5.2f}")
        print(f"{title:22} {name:34} {cells[0]}   ({cells[1]})", flush=True)


def measure(count, size, folder):
    random = np.random.default_rng(1)
    arrays = {f"layers/{index:05}/weights": random.random(size // 4, np.float32) for index in range(count)}
    umbo = Umbo({name: np.zeros_like(array) for name, array in arrays.items()})
    others, own = str(folder / "others.safetensors"), str(folder / "own.safetensors")
    safetensors.numpy.save_file(arrays, others)
    umbo.load(others.encode())
    assert all((value == arrays[name]).all() for name, value in umbo.values().items())
    umbo.save(own.encode())
    targets = {name: np.ones_like(array) for name, array in arrays.items()}
    load_numpy(own, targets)
    assert all((target == arrays[name]).all() for name, target in targets.items())
    title = f"{count} of {size >> 10} KiB"
    contestants = {
        "safetensors, NumPy": lambda: load_numpy(others, targets),
        "load_weights, no checksums": lambda: umbo.load(others.encode()),
        "load_weights, checksums": lambda: umbo.load(own.encode()),
        "restore, checksums": lambda: umbo.restore(own.encode()),
        "copy": lambda: copied_from(own, list(targets.values())),
    }
    if torch is not None:
        tensors = {name: torch.zeros(size // 4) for name in arrays}
        contestants["safetensors, PyTorch"] = lambda: load_torch(others, tensors)
    taken = turns(contestants, options.rounds)
    tell(title, taken, "safetensors, NumPy")
    copy = str(folder / "copy")
    contestants = {
        "safetensors, fsync, rename": lambda: save_numpy(others, arrays),
        "save": lambda: umbo.save(own.encode()),
        "copy, fsync, rename": lambda: copied_to(copy, list(arrays.values())),
    }
    tell(title, turns(contestants, max(3, options.rounds // 2)), "safetensors, fsync, rename")


with tempfile.TemporaryDirectory(dir=options.folder) as folder:
    print(f"{'':22} {'':34} {'clock':>12}  ratio   {'(processors':>13}  ratio)")
    for each in options.sizes.split(","):
        count, size = map(int, each.split("x"))
        measure(count, size, pathlib.Path(folder))
