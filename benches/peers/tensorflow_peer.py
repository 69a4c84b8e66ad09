"""TensorFlow's CentralStorageStrategy doing what Umbo is measured by."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

import reference
from turns import ELEMENTS, SAMPLES, Workload, take_turns

REPLICAS = 4
PIXELS, HIDDEN, CLASSES = 784, 500, 10
BATCH = 1024


def strategy(replicas):
    devices = [f"CPU:{number}" for number in range(replicas)]
    return tf.distribute.experimental.CentralStorageStrategy(devices, "CPU:0")


def input_workload(shuffle, in_graph):
    """One pass. In a graph the loop over the batches is part of a tf.function."""

    def prepare():
        rows = np.ones((SAMPLES, PIXELS), dtype=np.float32)
        dataset = tf.data.Dataset.from_tensor_slices(rows)
        if shuffle:
            dataset = dataset.shuffle(SAMPLES, seed=1)
        distributed = strategy(2).experimental_distribute_dataset(dataset.batch(BATCH))

        def loop():
            batches = 0
            for _ in distributed:
                batches += 1
            return batches

        loop = tf.function(loop) if in_graph else loop

        def check(batches):
            assert int(batches) == -(-SAMPLES // BATCH), batches

        return loop, check

    return Workload(prepare, calls=1, samples=SAMPLES)


def run_workload():
    central = strategy(2)

    @tf.function
    def step():
        central.run(lambda: tf.constant(0.0))

    return step, lambda result: None


def per_replica(central, parts):
    """One tensor for each replica."""
    return central.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )


def reduce_workload():
    central = strategy(REPLICAS)
    parts = reference.gradients(ELEMENTS, REPLICAS)
    values = per_replica(central, parts)

    @tf.function
    def step():
        return central.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

    return step, lambda result: reference.check_sum(result.numpy(), parts)


def update_workload(optimizer_of, weight_decay):
    def prepare():
        central = strategy(REPLICAS)
        parts = reference.gradients(ELEMENTS, REPLICAS)
        with central.scope():
            variable = tf.Variable(reference.weights(ELEMENTS))
            optimizer = optimizer_of()
            optimizer.build([variable])
        gradients = per_replica(central, parts)

        @tf.function
        def step():
            central.run(
                lambda gradient: optimizer.apply_gradients([(gradient, variable)]), (gradients,)
            )

        def check(_):
            reference.check_first_step(variable.numpy(), parts, weight_decay)

        return step, check

    return Workload(prepare)


SETTINGS = {
    "learning_rate": reference.LEARNING_RATE,
    "beta_1": reference.BETA1,
    "beta_2": reference.BETA2,
    "epsilon": reference.EPSILON,
}


def adam():
    return tf.keras.optimizers.Adam(**SETTINGS)


def adamw():
    return tf.keras.optimizers.AdamW(weight_decay=reference.WEIGHT_DECAY, **SETTINGS)


def train_workload(optimizer_of, batch):
    """A pass over made-up pictures with a perceptron, its loop in a graph."""
    replicas = 2

    def prepare():
        central = strategy(replicas)
        pictures, labels = reference.pictures(SAMPLES, PIXELS, CLASSES)
        # Shuffled numbers of rows, gathered batch by batch: much faster than shuffled rows.
        pictures, labels = tf.constant(pictures), tf.constant(labels)
        numbers = tf.data.Dataset.range(SAMPLES).shuffle(SAMPLES, seed=1)
        dataset = numbers.batch(replicas * batch, drop_remainder=True).map(
            lambda rows: (tf.gather(pictures, rows), tf.gather(labels, rows)),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
        distributed = central.experimental_distribute_dataset(dataset)
        with central.scope():
            initial = tf.keras.initializers.HeUniform(seed=1)
            weights1 = tf.Variable(initial((PIXELS, HIDDEN)))
            biases1 = tf.Variable(tf.zeros(HIDDEN))
            weights2 = tf.Variable(initial((HIDDEN, CLASSES)))
            biases2 = tf.Variable(tf.zeros(CLASSES))
            variables = [weights1, biases1, weights2, biases2]
            optimizer = optimizer_of()
            optimizer.build(variables)

        def train(x, y):
            with tf.GradientTape() as tape:
                hidden = tf.nn.relu(tf.matmul(x, weights1) + biases1)
                logits = tf.matmul(hidden, weights2) + biases2
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                loss = tf.reduce_sum(losses) / (replicas * batch)
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        @tf.function
        def one_pass():
            total = 0.0
            for x, y in distributed:
                losses = central.run(train, (x, y))
                total += central.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
            return total / (SAMPLES // (replicas * batch))

        def check(first):
            later = one_pass()
            assert later < first and later < 0.8 * np.log(CLASSES), (float(first), float(later))

        return one_pass, check

    return Workload(prepare, calls=1, samples=SAMPLES)


def sgd():
    return tf.keras.optimizers.SGD(0.01)


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(REPLICAS)]
    tf.config.set_logical_device_configuration(cpu, logical)
    threads = int(os.environ["PEER_THREADS_OF_OPERATION"])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    workloads = {
        "input, shuffled, eager": input_workload(True, False),
        "input, shuffled, graph": input_workload(True, True),
        "input, in order, eager": input_workload(False, False),
        "input, in order, graph": input_workload(False, True),
        "run": Workload(run_workload, calls=101),
        "reduce": Workload(reduce_workload),
        "adam": update_workload(adam, 0.0),
        "adamw": update_workload(adamw, reference.WEIGHT_DECAY),
    }
    for batch in (64, 256):
        workloads[f"train, sgd, {batch}"] = train_workload(sgd, batch)
        workloads[f"train, adam, {batch}"] = train_workload(adam, batch)
    take_turns(f"tensorflow {tf.__version__}", workloads)


main()
