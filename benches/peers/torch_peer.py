"""PyTorch summing the replicas' gradients and updating from them, in one process."""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch

import reference
from turns import ELEMENTS, Workload, take_turns

REPLICAS = 4


def gradients():
    parts = reference.gradients(ELEMENTS, REPLICAS)
    return parts, [torch.from_numpy(part) for part in parts]


def sum_into(output, parts):
    torch.add(parts[0], parts[1], out=output)
    for part in parts[2:]:
        output.add_(part)
    return output


def reduce_into_new():
    arrays, parts = gradients()

    def call():
        result = parts[0] + parts[1]
        for part in parts[2:]:
            result.add_(part)
        return result

    return call, lambda result: reference.check_sum(result.numpy(), arrays)


def reduce_again():
    arrays, parts = gradients()
    output = torch.zeros(ELEMENTS)

    def call():
        return sum_into(output, parts)

    return call, lambda result: reference.check_sum(result.numpy(), arrays)


def set_sum(weights, parts):
    """As one writes it who does not think of memory."""
    weights.grad = sum(parts)


def add_in_place(weights, parts):
    sum_into(weights.grad, parts)


def step_of(optimizer_of, add_up=add_in_place):
    """A workload: the sum of the gradients, and a step of the optimizer with it."""

    def prepare():
        arrays, parts = gradients()
        weights = torch.nn.Parameter(torch.from_numpy(reference.weights(ELEMENTS)))
        weights.grad = torch.zeros(ELEMENTS)
        optimizer = optimizer_of([weights])

        def call():
            add_up(weights, parts)
            optimizer.step()
            return weights

        def check(result):
            decay = reference.WEIGHT_DECAY
            reference.check_first_step(result.detach().numpy(), arrays, decay)

        return call, check

    return prepare


def settings():
    return {
        "lr": reference.LEARNING_RATE,
        "betas": (reference.BETA1, reference.BETA2),
        "eps": reference.EPSILON,
        "weight_decay": reference.WEIGHT_DECAY,
    }


def fused_adamw(parameters):
    return torch.optim.AdamW(parameters, fused=True, **settings())


def main():
    workloads = {
        "reduce, new": Workload(reduce_into_new),
        "reduce": Workload(reduce_again),
        "adamw, added in place": Workload(step_of(fused_adamw)),
        "adamw, sum()": Workload(step_of(fused_adamw, set_sum)),
    }
    take_turns(f"torch {torch.__version__}", workloads)


if __name__ == "__main__":
    main()
