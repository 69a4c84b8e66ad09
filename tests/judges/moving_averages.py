"""The moving average of the weights compared with those of PyTorch, Keras and TensorFlow, after 60 updates.

The weights are those of one training: what is judged is which weights an average takes, and with which share."""
import os

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
import keras
import numpy as np
import tensorflow as tf
import torch
from torch.optim import swa_utils

from binding import check, ffi, lib
from frame import Case, close
from trainer import Trainer

TITLE = "The average of the weights: PyTorch's `AveragedModel`, Keras' `use_ema`, TensorFlow's `ExponentialMovingAverage`"
JUDGE = ["torch", "keras", "tensorflow-cpu"]
STEPS = 60
BOUNDS = {"float64": 1e-14, "float32": STEPS * 2.0**-24}
SHAPES = [(5, 3), (7,)]


class Training:
    """A training with an average, and its gradients."""

    def __init__(self, dtype, rule="adamw", options=None, **settings):
        self.generator = np.random.default_rng(7)
        self.initial = [self.generator.uniform(0.5, 1.5, shape).astype(dtype) for shape in SHAPES]
        kind = lib.UMBO_AVERAGE_EXPONENTIAL if "average_decay" in settings else lib.UMBO_AVERAGE_MEAN
        options = {"learning_rate": 0.0625} | (options or {})
        self.ours = Trainer(rule, self.initial, options, {"average": kind} | settings)

    def step(self):
        """The gradients of the next update, and the weights after it."""
        gradients = [self.generator.normal(0.2, 1.0, array.shape).astype(array.dtype) for array in self.initial]
        self.ours.step(*gradients)
        return gradients, [self.ours.weights(index) for index in range(len(SHAPES))]

    def compare(self, averages, bound):
        """The averages as states, and as weights while umbo_optimizer_with_average() calls a function."""
        seen = []

        @ffi.callback("umbo_status(void *)")
        def look(_):
            seen.extend(self.ours.weights(index) for index in range(len(SHAPES)))
            return lib.UMBO_OK

        before = [self.ours.weights(index) for index in range(len(SHAPES))]
        check(lib.umbo_optimizer_with_average(self.ours.optimizer, look, ffi.NULL))
        for index, average in enumerate(averages):
            close(f"average {index}", self.ours.state("average", index), average, bound)
            close(f"weights {index} in its place", seen[index], average, bound)
            close(f"weights {index} after that", self.ours.weights(index), before[index], 0.0)
            assert np.abs(before[index] - average).max() > 1e-3, "the average is the weights"


def pytorch(dtype, start=0, interval=1, decay=None):
    settings = {"average_start": start, "average_interval": interval}
    training = Training(dtype, **settings, **({} if decay is None else {"average_decay": decay}))
    module = torch.nn.ParameterList(torch.nn.Parameter(torch.from_numpy(array.copy())) for array in training.initial)
    how = {} if decay is None else {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(decay)}
    averaged = swa_utils.AveragedModel(module, **how)
    for step in range(STEPS):
        _, weights = training.step()
        with torch.no_grad():
            for parameter, array in zip(module, weights):
                parameter.copy_(torch.from_numpy(array))
        if step >= start and (step - start) % interval == 0:
            averaged.update_parameters(module)
    training.compare([parameter.detach().numpy() for parameter in averaged.module], BOUNDS[dtype])


def in_keras(dtype, decay):
    keras.config.set_floatx(dtype)
    # The same rule there, so that Keras' own loop moves the average.
    training = Training(dtype, "sgd", average_decay=decay)
    variables = [keras.Variable(array, dtype=dtype) for array in training.initial]
    theirs = keras.optimizers.SGD(learning_rate=0.0625, use_ema=True, ema_momentum=decay)
    for _ in range(STEPS):
        gradients, _ = training.step()
        theirs.apply([tf.constant(gradient) for gradient in gradients], variables)
    theirs.finalize_variable_values(variables)
    training.compare([variable.numpy() for variable in variables], BOUNDS[dtype])


def in_tensorflow(dtype, decay):
    training = Training(dtype, average_decay=decay, average_warmup=1)
    variables = [tf.Variable(array) for array in training.initial]
    moves = tf.Variable(0.0, dtype=dtype)
    theirs = tf.train.ExponentialMovingAverage(decay, num_updates=moves)
    for step in range(STEPS):
        _, weights = training.step()
        for variable, array in zip(variables, weights):
            variable.assign(array)
        # TensorFlow begins with a copy of the weights, as of the first update.
        moves.assign(float(step))
        theirs.apply(variables)
    # Its decay is a float32 number, whatever the weights are.
    training.compare([theirs.average(variable).numpy() for variable in variables], BOUNDS["float32"])


def cases(small):
    dtypes = ["float64"] if small else BOUNDS
    for dtype in dtypes:
        yield Case(f"PyTorch's mean, {dtype}", lambda dtype=dtype: pytorch(dtype))
        yield Case(f"PyTorch's exponential average, {dtype}", lambda dtype=dtype: pytorch(dtype, decay=0.9))
        yield Case(f"Keras' average, {dtype}", lambda dtype=dtype: in_keras(dtype, 0.875))
        yield Case(f"TensorFlow's with its warm-up, {dtype}", lambda dtype=dtype: in_tensorflow(dtype, 0.96875))
        for start, interval in [] if small else [(20, 1), (0, 5), (13, 4)]:
            name = f"from update {start + 1}, each {interval}th, {dtype}"
            yield Case(f"PyTorch's mean {name}", lambda a=(dtype, start, interval): pytorch(*a))
            yield Case(f"PyTorch's exponential average {name}", lambda a=(dtype, start, interval): pytorch(*a, 0.9))
