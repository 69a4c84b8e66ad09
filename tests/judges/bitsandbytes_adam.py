"""bitsandbytes' AdamW8bit on CPUs: states of 8 bits in blocks of 256 elements, by the same published maps.

A step of a weight differs where a code does: a second moment above 0 may become 0 there, and never does here, so that
the moves of all weights are compared, not each weight. Times are those of the update alone, in turns."""
import statistics
import time

import numpy as np
import torch

from frame import Case, close
from trainer import Trainer, check, ffi, lib

TITLE = "bitsandbytes' AdamW8bit on CPUs, weights and times"
JUDGE = ["bitsandbytes", "torch"]
STEPS = 20
RATE, DECAY = 1e-3, 0.01
# Below 4096 elements both keep states in full.
SIZES = [1000, 4096, 65536 + 300]
TIMED = 4 << 20
ROUNDS = 7


class Both:
    """The two optimizers, with the same weights, which get the same gradients."""

    def __init__(self, size):
        import bitsandbytes
        self.generator = torch.Generator().manual_seed(size)
        self.initial = torch.randn(size, generator=self.generator)
        self.parameter = torch.nn.Parameter(self.initial.clone())
        self.theirs = bitsandbytes.optim.AdamW8bit([self.parameter], lr=RATE, weight_decay=DECAY)
        self.ours = Trainer("adamw", [self.initial.numpy()], {"learning_rate": RATE, "weight_decay": DECAY},
                            {"state_bits": 8})

    def step(self):
        """The seconds of ours and of theirs."""
        # Neither side is left a moment that is 0.
        gradient = torch.randn(self.parameter.numel(), generator=self.generator)
        self.parameter.grad = gradient
        self.ours.given = [gradient.numpy()]
        check(lib.umbo_strategy_run(self.ours.strategy, self.ours.callback, ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL))
        begin = time.perf_counter()
        check(lib.umbo_optimizer_apply(self.ours.optimizer, self.ours.gradients, ffi.NULL, ffi.NULL))
        between = time.perf_counter()
        self.theirs.step()
        return between - begin, time.perf_counter() - between


def moves(size):
    both = Both(size)
    for _ in range(STEPS):
        both.step()
    start = both.initial.numpy()
    ours, theirs = both.ours.weights() - start, both.parameter.detach().numpy() - start
    if size < 4096:
        close("weights", ours, theirs, STEPS * 2.0**-20)
        return
    # Codes of 8 bits are a few per cent apart, and so is the step of a weight.
    difference = np.abs(ours - theirs).mean() / np.abs(theirs).mean()
    assert difference < 0.05, f"the moves of {size} weights differ by {difference:.3f} of their mean"


def times():
    both = Both(TIMED)
    lib.umbo_set_worker_count(torch.get_num_threads())
    both.step()
    rounds = [both.step() for _ in range(ROUNDS)]
    ratio = statistics.median(theirs / ours for ours, theirs in rounds)
    ours, theirs = (statistics.median(side) for side in zip(*rounds))
    return (f"an update of {TIMED >> 20} Mi elements on {torch.get_num_threads()} threads: {1e3 * ours:.1f} ms, "
            f"bitsandbytes {1e3 * theirs:.1f} ms, {ratio:.1f} x")


def cases(small):
    for size in SIZES[:2 if small else None]:
        yield Case(f"AdamW8bit {size}", lambda size=size: moves(size))
    if not small:
        yield Case("times", times)
