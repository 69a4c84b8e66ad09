"""The numbers that the programs in Python work on, and whether what they make of them is right;
numbers.c says the same in C."""

import numpy as np

# What all programs give to AdamW; to Adam all but the decay.
LEARNING_RATE, BETA1, BETA2, EPSILON, WEIGHT_DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01
WEIGHTS_SEED = 100


def random_numbers(count, seed):
    """From 0.5 to 1.5. No gradient is near 0, where Adam's step depends on where an implementation
    adds its epsilon."""
    return np.random.default_rng(seed).random(count, dtype=np.float32) + np.float32(0.5)


def gradients(count, replicas):
    return [random_numbers(count, replica) for replica in range(replicas)]


def weights(count):
    return random_numbers(count, WEIGHTS_SEED)


def sum_of(parts):
    return sum(part.astype(np.float64) for part in parts)


def check_sum(result, parts):
    right = sum_of(parts)
    worst = np.max(np.abs(np.asarray(result) - right) / right)
    assert worst <= 4e-7, f"a sum is off by {worst:.2g} of itself"


def check_first_step(result, parts, weight_decay):
    """Whether `result` is what one step makes of the weights. In the first step the corrected
    moments are the gradient and its square."""
    gradient = sum_of(parts)
    right = weights(len(gradient)).astype(np.float64) * (1.0 - LEARNING_RATE * weight_decay)
    right -= LEARNING_RATE * gradient / (np.abs(gradient) + EPSILON)
    worst = np.max(np.abs(np.asarray(result) - right))
    assert worst <= 5e-7, f"a weight is off by {worst:.2g}"


def pictures(samples, pixels, classes):
    """Pictures that can be told apart: the prototype of a class with noise on it."""
    labels = (np.arange(samples) % classes).astype(np.int32)
    prototypes = random_numbers(classes * pixels, 1000).reshape(classes, pixels)
    noise = random_numbers(samples * pixels, 1001).reshape(samples, pixels)
    return noise + prototypes[labels] - np.float32(2.0), labels
