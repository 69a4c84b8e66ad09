"""Compares the optimizers with those of torch.optim: compare.py STEPS

STEPS is the program made of steps.c. 20 updates in float64 from the same gradients of two replicas must
end in the same weights, to 1e-12 of their magnitude, after each update.

What is not PyTorch's: clip_grad_norm_() divides by the norm plus 1e-6, where Umbo divides by the
norm, so that clipping is spelled out here.
"""

import array
import subprocess
import sys

import torch

SHAPES = [(5, 3), (7,)]
REPLICAS = 2
UPDATES = 20
TOLERANCE = 1e-12
CLIP_NORM = 1.5

# Of each rule: its options for steps.c, and torch's optimizer with the same.
RULES = {
    "sgd": ("sgd", {}, torch.optim.SGD, {}),
    "momentum": ("momentum", {"momentum": 0.8}, torch.optim.SGD, {"momentum": 0.8}),
    "nesterov": (
        "momentum",
        {"momentum": 0.8, "nesterov": 1},
        torch.optim.SGD,
        {"momentum": 0.8, "nesterov": True},
    ),
    "adagrad": ("adagrad", {}, torch.optim.Adagrad, {"eps": 1e-10}),
    "adagrad from 0.1": (
        "adagrad",
        {"initial_accumulator": 0.1},
        torch.optim.Adagrad,
        {"eps": 1e-10, "initial_accumulator_value": 0.1},
    ),
    "rmsprop": ("rmsprop", {"decay": 0.95}, torch.optim.RMSprop, {"alpha": 0.95, "eps": 1e-8}),
    "rmsprop, centered, with momentum": (
        "rmsprop",
        {"decay": 0.95, "momentum": 0.7, "centered": 1},
        torch.optim.RMSprop,
        {"alpha": 0.95, "eps": 1e-8, "momentum": 0.7, "centered": True},
    ),
    "adam": (
        "adam",
        {"beta1": 0.85, "beta2": 0.99},
        torch.optim.Adam,
        {"betas": (0.85, 0.99), "eps": 1e-8},
    ),
    "adamw": ("adamw", {}, torch.optim.AdamW, {"eps": 1e-8}),
}
LEARNING_RATE = 0.01
AROUND = [
    {},
    {"weight_decay": 0.05},
    {"global_clip_norm": CLIP_NORM},
    {"accumulation_steps": 3},
    {"weight_decay": 0.05, "global_clip_norm": CLIP_NORM, "accumulation_steps": 2},
]


def numbers(generator, low, high):
    """One float64 tensor of each shape, between the bounds."""
    parts = [torch.rand(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
    return [low + (high - low) * part for part in parts]


def in_bytes(tensors):
    return b"".join(array.array("d", tensor.flatten().tolist()).tobytes() for tensor in tensors)


def ours(steps, rule, options, initial, runs):
    """The weights after each apply, as lists of float64 tensors."""
    arguments = [steps, rule] + [f"{name}={value}" for name, value in options.items()]
    given = in_bytes(initial) + b"".join(in_bytes(part) for parts in runs for part in parts)
    done = subprocess.run(arguments, input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    flat = torch.frombuffer(bytearray(done.stdout), dtype=torch.float64)
    sizes = [tensor.numel() for tensor in initial]
    return [each.split(sizes) for each in flat.split(sum(sizes))]


def theirs(optimizer_of, options, around, initial, runs):
    """The weights after each update."""
    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in initial]
    options = dict(options, lr=LEARNING_RATE, weight_decay=around.get("weight_decay", 0.0))
    # AdamW of the library decays by 0.01 where nothing else is said, as PyTorch's does.
    if optimizer_of is torch.optim.AdamW and "weight_decay" not in around:
        options["weight_decay"] = 0.01
    optimizer = optimizer_of(parameters, **options)
    accumulated = around.get("accumulation_steps", 1)
    weights = []
    for first in range(0, len(runs), accumulated):
        contributions = [part for parts in runs[first : first + accumulated] for part in parts]
        for index, parameter in enumerate(parameters):
            parameter.grad = sum(part[index] for part in contributions)
        if "global_clip_norm" in around:
            norm = torch.sqrt(sum((parameter.grad**2).sum() for parameter in parameters))
            assert norm > around["global_clip_norm"], "the bound has no effect"
            for parameter in parameters:
                parameter.grad *= around["global_clip_norm"] / norm
        optimizer.step()
        weights.append([parameter.detach().clone() for parameter in parameters])
    return weights


def compare(steps, name, around):
    """The largest difference of a weight, relative to it."""
    rule, options, optimizer_of, their_options = RULES[name]
    generator = torch.Generator().manual_seed(1)
    initial = numbers(generator, 0.5, 1.5)
    accumulated = around.get("accumulation_steps", 1)
    runs = [
        [numbers(generator, -2.0, 2.0) for _ in range(REPLICAS)]
        for _ in range(UPDATES * accumulated)
    ]
    options = {"learning_rate": LEARNING_RATE, **options, **around}
    mine = ours(steps, rule, options, initial, runs)[accumulated - 1 :: accumulated]
    right = theirs(optimizer_of, their_options, around, initial, runs)
    assert len(mine) == len(right) == UPDATES, (len(mine), len(right))
    worst = 0.0
    for a, b in zip(mine, right):
        for left, correct in zip(a, b):
            off = (left - correct.flatten()).abs() / correct.flatten().abs()
            # A number that is none compares as wrong.
            worst = max(worst, off.nan_to_num(nan=torch.inf).max().item())
    moved = max((a - b).abs().max().item() for a, b in zip(initial, right[-1]))
    assert moved > 1e-3, "the weights stood still"
    return worst


def main():
    failures = 0
    for name in RULES:
        for around in AROUND:
            worst = compare(sys.argv[1], name, around)
            fine = worst <= TOLERANCE
            failures += not fine
            said = ", ".join(f"{key} {value}" for key, value in around.items()) or "nothing around"
            print(f"{'ok' if fine else 'WRONG'}: {name}; {said}: off by {worst:.1e}")
    print(f"torch {torch.__version__}: {failures} of {len(RULES) * len(AROUND)} differ")
    sys.exit(1 if failures else 0)


main()
