"""Trains through docs/python/binding.py: python3 train.py FOLDER_OF_IT INCLUDE LIBRARY

With --measure, how long steps of one and two replicas take."""
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["LIBUMBO_INCLUDE"], os.environ["LIBUMBO_FOLDER"] = sys.argv[2:4]
sys.path.insert(0, sys.argv[1])
caches = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = caches.name

import numpy as np
from binding import Exported, array_of, check, ffi, lib, made, on_replicas, raised, tensor_of


def strategy_of(replicas):
    options = ffi.new("umbo_strategy_options *", lib.UMBO_STRATEGY_OPTIONS_INIT)
    options.cpu_replicas = replicas
    return made("strategy", lib.umbo_strategy_create, options)


def train(rows, targets, epochs):
    """The weights of a linear model."""
    strategy = strategy_of(2)
    weights = made("variable", lib.umbo_variable_create, strategy, b"weights",
                   tensor_of(np.zeros(rows.shape[1], np.float32)), ffi.NULL)
    gradients = made("gradients", lib.umbo_gradients_create, strategy, 1, [weights], lib.UMBO_LOSS_MEAN, ffi.NULL)
    optimizer = made("optimizer", lib.umbo_optimizer_create_adam, strategy, ffi.new(
        "umbo_adam_options *", lib.UMBO_ADAM_OPTIONS_INIT))
    check(lib.umbo_optimizer_set_learning_rate(optimizer, 0.1))
    fields = [made("value", lib.umbo_value_from_tensor, tensor_of(array)) for array in (rows, targets)]
    names = [ffi.new("char[]", name) for name in (b"x", b"y")]
    both = made("value", lib.umbo_value_create_struct, 2, names, fields)
    dataset = ffi.new("umbo_dataset **")
    check(lib.umbo_dataset_from_tensor_slices(both, dataset))
    check(lib.umbo_dataset_shuffle(dataset, ffi.NULL))
    check(lib.umbo_dataset_batch(dataset, 100, 0))
    distributed = made("distributed_dataset", lib.umbo_strategy_distribute_dataset, strategy, dataset[0], ffi.NULL)
    lib.umbo_dataset_release(dataset[0])
    iterator = made("iterator", lib.umbo_iterator_from_distributed_dataset, distributed)

    @on_replicas
    def step(context, args):
        x, y = (array_of(lib.umbo_value_view, args, name, lib.UMBO_DTYPE_FLOAT32) for name in names)
        error = x @ array_of(lib.umbo_variable_view, weights, context, lib.UMBO_DTYPE_NONE) - y
        gradient = array_of(lib.umbo_gradients_view, gradients, context, 0, lib.UMBO_GRADIENT_OVERWRITE)
        np.dot(error, x, out=gradient)
        check(lib.umbo_gradients_submit(gradients, context))

    @on_replicas
    def fails(context, args):
        raise KeyError("no such thing")

    for _ in range(epochs):
        check(lib.umbo_train_epoch(strategy, iterator, optimizer, gradients, step, ffi.NULL, ffi.NULL, ffi.NULL))
    try:
        check(lib.umbo_strategy_run(strategy, fails, ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL))
        raise AssertionError("the exception did not come home")
    except KeyError as error:
        assert error.args == ("no such thing",)
    copy = np.from_dlpack(Exported(made("tensor", lib.umbo_variable_read, weights)))
    assert copy.tolist() == array_of(lib.umbo_variable_view, weights, ffi.NULL, lib.UMBO_DTYPE_NONE).tolist()
    return copy


def second_start():
    """What the first start compiled is there for the next, which needs no compiler."""
    elsewhere = dict(os.environ, PATH="/nowhere", PYTHONPATH=sys.argv[1])
    subprocess.run([sys.executable, "-c", "import binding; print(binding.lib)"], env=elsewhere, check=True)


def measure():
    """Steps of replicas that share work evenly, in Python and in NumPy, on one replica and on two."""
    matrix = np.random.default_rng(1).standard_normal((400, 400))
    kinds = {
        "Python": lambda count: sum(number * number for number in range(count * 20000)),
        "small arrays": lambda count: [matrix[0] + 1 for _ in range(count * 1000)],
        "matrix products": lambda count: [matrix @ matrix for _ in range(count)],
    }
    for name, work in kinds.items():
        runs, best = {}, {}
        for replicas in 1, 2:
            step = on_replicas(lambda context, args, share=12 // replicas: work(share))
            runs[replicas] = strategy_of(replicas), step
        # In turn, so that what else the machine does falls on both.
        for _ in range(40):
            for replicas, (strategy, step) in runs.items():
                start = time.perf_counter()
                check(lib.umbo_strategy_run(strategy, step, ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL))
                seconds = time.perf_counter() - start
                best[replicas] = min(best.get(replicas, seconds), seconds)
        print(f"{name}: {best[1] * 1000:.1f} ms on one replica, {best[2] * 1000:.1f} ms on two")


if __name__ == "__main__":
    # docs/packaging.md promises a file that can be read in one go.
    assert len(pathlib.Path(sys.argv[1], "binding.py").read_text().splitlines()) <= 180
    random = np.random.default_rng(1)
    x = random.standard_normal((2000, 3)).astype(np.float32)
    found = train(x, x @ np.array([1, -2, 3], np.float32), 20)
    print("weights:", found.round(3))
    assert np.allclose(found, [1, -2, 3], atol=0.01)
    second_start()
    # Nothing is left: no exception on its way, and no handle, which its traceback may have.
    del found
    lib.umbo_clear_last_error()
    gc.collect()
    assert not raised, raised
    count = ffi.new("int64_t *")
    check(lib.umbo_live_handles(lib.UMBO_HANDLE_ANY, count))
    assert count[0] == 0, count[0]
    if "--measure" in sys.argv:
        measure()
