"""Trains through docs/python/binding.py: python3 train.py FOLDER_OF_IT INCLUDE LIBRARY PYTHON

With the other Python if this one has no cffi or no NumPy of version 2.1 or later, whose arrays the binding takes;
exit code 77 if neither has. With --measure, how long steps of one and two replicas take."""
import gc
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import tempfile
import time


def has_what_it_takes():
    if any(importlib.util.find_spec(name) is None for name in ("numpy", "cffi")):
        return False
    return [int(number) for number in importlib.metadata.version("numpy").split(".")[:2]] >= [2, 1]


if not has_what_it_takes():
    other = sys.argv[4]
    if not os.path.exists(other) or other == sys.executable:
        print("cffi, or NumPy 2.1 or later, is not installed")
        sys.exit(77)
    os.execv(other, [other, *sys.argv])

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["LIBUMBO_INCLUDE"], os.environ["LIBUMBO_FOLDER"] = sys.argv[2:4]
sys.path.insert(0, sys.argv[1])

import numpy as np
from binding import Exported, array_of, check, ffi, lib, made, on_replicas, raised, tensor_of


def strategy_of(replicas):
    options = ffi.new("umbo_strategy_options *", lib.umbo_strategy_options_default())
    options.cpu_replicas = replicas
    return made("strategy", lib.umbo_strategy_create, options)


def train(rows, targets, epochs):
    """The weights of a linear model."""
    strategy = strategy_of(2)
    weights = made("variable", lib.umbo_variable_create, strategy, b"weights",
                   tensor_of(np.zeros(rows.shape[1], np.float32)), ffi.NULL)
    options = ffi.new("umbo_gradients_options *", lib.umbo_gradients_options_default())
    options.loss_reduction = lib.UMBO_LOSS_MEAN
    gradients = made("gradients", lib.umbo_gradients_create, strategy, 1, [weights], options)
    optimizer = made("optimizer", lib.umbo_optimizer_create_adam, strategy, ffi.new(
        "umbo_adam_options *", lib.umbo_adam_options_default()))
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
        x, y = (array_of(lib.umbo_value_view, args, name) for name in names)
        error = x @ array_of(lib.umbo_variable_view, weights, context) - y
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
    assert copy.tolist() == array_of(lib.umbo_variable_view, weights, ffi.NULL).tolist()
    saved_and_loaded(strategy, weights, copy)
    with_torch(strategy, weights)
    return copy


def saved_and_loaded(strategy, weights, values):
    """The weights go into a file, and out of it into variables of another program."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.safetensors").encode()
        checkpoint = made("checkpoint", lib.umbo_checkpoint_create, strategy)
        check(lib.umbo_checkpoint_add_variable(checkpoint, ffi.NULL, weights))
        check(lib.umbo_checkpoint_save_weights(checkpoint, path))
        others = strategy_of(1)
        zeros = tensor_of(np.zeros_like(values))
        empty = made("variable", lib.umbo_variable_create, others, b"weights", zeros, ffi.NULL)
        checkpoint = made("checkpoint", lib.umbo_checkpoint_create, others)
        check(lib.umbo_checkpoint_add_variable(checkpoint, ffi.NULL, empty))
        check(lib.umbo_checkpoint_load_weights(checkpoint, path, 0, ffi.NULL, ffi.NULL))
        assert array_of(lib.umbo_variable_view, empty, ffi.NULL).tolist() == values.tolist()


def with_torch(strategy, weights):
    """A tensor of torch's is a tensor of Umbo's, and back, in place, as NumPy shares memory with both."""
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: its tensors are not tried")
        return
    import torch
    theirs = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    try:
        theirs.numpy()
    except RuntimeError as error:
        print(f"torch and NumPy do not fit together, so that torch's tensors are not tried: {error}")
        return
    ours = tensor_of(theirs.T.numpy())
    shown = array_of(lib.umbo_tensor_view, ours)
    assert shown.tolist() == theirs.T.tolist() and shown.ctypes.data == theirs.data_ptr()
    back = torch.from_numpy(np.from_dlpack(Exported(ours)))
    theirs[1, 2] = 50
    del ours, shown
    assert back.data_ptr() == theirs.data_ptr() and back[2, 1] == 50
    read = torch.from_numpy(np.from_dlpack(Exported(made("tensor", lib.umbo_variable_read, weights))))
    assert read.tolist() == array_of(lib.umbo_variable_view, weights, ffi.NULL).tolist()


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
    # docs/python.md promises a file that can be read in one go.
    assert len(pathlib.Path(sys.argv[1], "binding.py").read_text().splitlines()) <= 120
    random = np.random.default_rng(1)
    x = random.standard_normal((2000, 3)).astype(np.float32)
    found = train(x, x @ np.array([1, -2, 3], np.float32), 20)
    print("weights:", found.round(3))
    assert np.allclose(found, [1, -2, 3], atol=0.01)
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
