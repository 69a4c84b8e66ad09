"""Trains cases with Keras' fit under tf.distribute.experimental.CentralStorageStrategy: keras_fit.py < cases > answers"""
import json
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import keras
import tensorflow as tf

import reference

REDUCTIONS = {"sum": "sum", "mean": "sum_over_batch_size"}


def refusal(case):
    """Why fit cannot be told to do that."""
    if case["workers"] > 1:
        return "the strategy is of one process"
    if case["reduction"] not in REDUCTIONS:
        return "fit divides a loss by itself"
    return None


def train(case):
    sums = case["reduction"] == "sum"
    size = reference.size_of_sum(case, sums)
    devices = [f"/device:CPU:{replica}" for replica in range(case["replicas"])]
    strategy = tf.distribute.experimental.CentralStorageStrategy(devices, "/device:CPU:0")
    with strategy.scope():
        model = keras.Sequential([keras.Input((reference.WIDTH,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        optimizer = keras.optimizers.SGD(
            reference.LEARNING_RATE / size, momentum=reference.MOMENTUM,
            global_clipnorm=case["clip_norm"] * size or None,
            gradient_accumulation_steps=case["accumulation"] if case["accumulation"] > 1 else None)
        if case["loss_scale"]:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=case["loss_scale"])
        loss = keras.losses.MeanSquaredError(reduction=REDUCTIONS[case["reduction"]])
        model.compile(optimizer, loss, metrics=["mae"])
    x, y = reference.data(case["examples"])
    history = model.fit(x, y[:, None], case["batch"], case["epochs"], verbose=0, shuffle=False).history
    kernel, bias = model.get_weights()
    # A loss that is a sum is not comparable over batches of different sizes.
    losses = {} if sums else {"loss": history["loss"]}
    return {"weights": [*kernel[:, 0], *bias], "error": history["mae"], **losses}


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    most = max(case["replicas"] for case in cases)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration() for _ in range(most)])
    keras.config.set_floatx("float64")
    answers = {}
    for case in cases:
        try:
            answers[case["id"]] = {"refusal": refusal(case)} if refusal(case) else train(case)
        except Exception as error:  # whatever the system raises is its answer
            answers[case["id"]] = {"failure": f"{type(error).__name__}: {error}".splitlines()[0]}
    json.dump(answers, sys.stdout)
