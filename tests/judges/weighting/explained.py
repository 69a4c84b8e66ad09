"""What other systems compute in place of the reference, as docs/internals/one-replica.md says: the same numbers must come out."""
import numpy as np

import reference


def own(case, batch, rows, sums):
    """What each replica computes of its part of a batch; nothing of no examples."""
    parts = reference.parts(batch, case["workers"] * case["replicas"])
    return [rows[part].sum(0) / (1 if sums else max(len(part), 1)) for part in parts]


def keras(case, group, rows, bound, sums):
    """Each replica's mean counts the same, and each replica clips its own gradient."""
    [batch] = group
    replicas = own(case, batch, rows, sums)
    replicas = [replica if sums else replica / len(replicas) for replica in replicas]
    return sum(reference.clipped(replica, bound) for replica in replicas), np.nan


def keras_weight(case, batch):
    """Each batch multiplies what the metrics of the epoch have so far by the number of replicas."""
    return float(case["replicas"]) ** -batch


def ddp(case, group, rows, bound, sums):
    """Gradients are averaged over processes, whatever they have computed; each batch counts the same."""
    processes, gradient = case["workers"] * case["replicas"], 0
    for batch in group:
        over = case["accumulation"] if case["reduction"] == "mean" else 1
        over = sum(map(len, group)) if case["reduction"] == "global_mean" else over
        gradient = gradient + sum(own(case, batch, rows, case["reduction"] != "mean")) / over / processes
    return reference.clipped(gradient, bound), np.linalg.norm(gradient)


def train(system, case, sums):
    if system == "keras":
        return reference.train(case, sums, keras, keras_weight)
    return reference.train(case, sums, ddp)
