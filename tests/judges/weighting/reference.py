"""What a training case must give, in float64 on one replica: each update is that of all examples of its batches."""
import numpy as np

WIDTH, LEARNING_RATE, MOMENTUM = 3, 1 / 16, 7 / 8


def data(examples):
    rows = np.arange(examples)
    x = np.sin(1 + 3 * rows[:, None] + 7 * np.arange(WIDTH))
    return x, x[:, 0] - 2 * x[:, 1] + 3 * x[:, 2] + np.cos(1 + 2 * rows)


def groups(case):
    """The batches of an epoch, as ranges of examples, in groups that make one update each."""
    starts = range(0, case["examples"], case["batch"])
    batches = [range(start, min(start + case["batch"], case["examples"])) for start in starts]
    return [batches[first:first + case["accumulation"]] for first in range(0, len(batches), case["accumulation"])]


def parts(batch, replicas):
    """The examples of each replica: their number over that of the replicas, rounded up, until none are left."""
    size = -(-len(batch) // replicas)
    return [batch[replica * size:(replica + 1) * size] for replica in range(replicas)]


def size_of_sum(case, sums):
    """By what the learning rate is divided, and the bound multiplied, where updates are sums and not means."""
    return case["batch"] * case["accumulation"] if sums else 1


def clipped(gradient, bound):
    norm = np.linalg.norm(gradient)
    return gradient * bound / norm if norm > bound else gradient


def as_one(case, group, rows, bound, sums):
    """The gradient of one replica and its norm before it is clipped. `rows` are the gradients of all examples."""
    gradient = rows[np.concatenate(group)].sum(0)
    gradient /= 1 if sums else sum(map(len, group))
    return clipped(gradient, bound), np.linalg.norm(gradient)


def all_weigh_the_same(case, batch):
    return 1


def train(case, sums=False, step=as_one, weight=all_weigh_the_same):
    """The numbers that a case gives if `step` makes the gradients, and batch k of an epoch has this weight in metrics."""
    x, y = data(case["examples"])
    inputs = np.column_stack([x, np.ones(len(x))])
    weights, velocity, size = np.zeros(WIDTH + 1), np.zeros(WIDTH + 1), size_of_sum(case, sums)
    found = {"loss": [], "error": [], "norm": []}
    for _ in range(case["epochs"]):
        errors, weight_of = np.zeros(case["examples"]), np.zeros(case["examples"])
        for group in groups(case):
            for batch in group:
                weight_of[batch] = weight(case, batch.start // case["batch"])
            examples = np.concatenate(group)
            errors[examples] = inputs[examples] @ weights - y[examples]
            rows = 2 * errors[:, None] * inputs
            gradient, norm = step(case, group, rows, (case["clip_norm"] or np.inf) * size, sums)
            found["norm"].append(norm)
            velocity = MOMENTUM * velocity + gradient
            weights = weights - LEARNING_RATE / size * velocity
        found["loss"].append(np.average(errors**2, weights=weight_of))
        found["error"].append(np.average(np.abs(errors), weights=weight_of))
    return {name: np.asarray(values) for name, values in (found | {"weights": weights}).items()}
