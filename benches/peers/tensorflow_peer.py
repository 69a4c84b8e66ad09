"""TensorFlow's CentralStorageStrategy doing what `umbo bench` does.

Reads the name of a workload from each line of its input, does it once, and answers with one JSON
line. Started by run.py, with the Python of its private environment.
"""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

SAMPLES = int(os.environ["PEER_SAMPLES"])
ELEMENTS = int(os.environ["PEER_ELEMENTS"])
FEATURES = 784
BATCH = 1024
CALLS = 100


def strategy(replicas):
    devices = [f"CPU:{number}" for number in range(replicas)]
    return tf.distribute.experimental.CentralStorageStrategy(devices, "CPU:0")


def input_workload(shuffle, in_graph):
    """One pass. In a graph the loop over the batches is part of a tf.function."""
    central = strategy(2)
    rows = np.ones((SAMPLES, FEATURES), dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    if shuffle:
        dataset = dataset.shuffle(SAMPLES, seed=1)
    distributed = central.experimental_distribute_dataset(dataset.batch(BATCH))

    def loop():
        batches = 0
        for _ in distributed:
            batches += 1
        return batches

    loop = tf.function(loop) if in_graph else loop

    def one_pass():
        start = time.perf_counter()
        batches = int(loop())
        seconds = time.perf_counter() - start
        assert batches == -(-SAMPLES // BATCH), batches
        return {"samples_per_second": SAMPLES / seconds}

    return one_pass


def run_workload():
    central = strategy(2)

    @tf.function
    def step():
        central.run(lambda: tf.constant(0.0))

    def calls():
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        return {"us": sorted(times)[CALLS // 2] * 1e6}

    return calls


def reduce_workload():
    central = strategy(4)
    value = np.ones(ELEMENTS, dtype=np.float32)
    values = central.experimental_distribute_values_from_function(
        lambda context: tf.identity(tf.constant(value))
    )

    @tf.function
    def step():
        return central.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

    def call():
        start = time.perf_counter()
        result = step()
        seconds = time.perf_counter() - start
        assert float(result[ELEMENTS - 1]) == 4.0
        return {"us": seconds * 1e6}

    return call


def update_workload():
    central = strategy(4)
    with central.scope():
        variable = tf.Variable(tf.ones([ELEMENTS]))
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build([variable])
    gradients = central.experimental_distribute_values_from_function(
        lambda context: tf.fill([ELEMENTS], 0.001)
    )

    @tf.function
    def step():
        central.run(
            lambda gradient: optimizer.apply_gradients([(gradient, variable)]), (gradients,)
        )

    def call():
        before = float(variable[0])
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        assert float(variable[0]) < before
        return {"us": seconds * 1e6}

    return call


MAKE = {
    "input, shuffled, eager": lambda: input_workload(True, False),
    "input, shuffled, graph": lambda: input_workload(True, True),
    "input, in order, eager": lambda: input_workload(False, False),
    "input, in order, graph": lambda: input_workload(False, True),
    "run": run_workload,
    "reduce": reduce_workload,
    "update": update_workload,
}


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(4)]
    tf.config.set_logical_device_configuration(cpu, logical)
    print(json.dumps({"version": f"tensorflow {tf.__version__}"}), file=answers, flush=True)
    made = {}
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in made:
                made[name] = MAKE[name]()
                made[name]()  # The first call traces and touches the memory.
            answer = made[name]()
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)


main()
