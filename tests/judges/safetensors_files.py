"""safetensors: its Python library reads what Umbo writes, and the other way round; and what one of the two refuses in a
damaged file, the other one refuses, too."""
import json
import os
import random
import tempfile

import numpy as np
from binding import array_of, check, ffi, lib, made, tensor_of
from frame import Case
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

TITLE = "safetensors: files both ways, and mutated files"
JUDGE = ("safetensors",)

MUTATED = 10_000
KINDS = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "bool"]
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3), (1, 4, 2)]


class Model:
    """A checkpoint of variables, of zeros in the beginning, with names, types and shapes of arrays."""
    def __init__(self, arrays):
        options = ffi.new("umbo_strategy_options *", lib.UMBO_STRATEGY_OPTIONS_INIT)
        options.cpu_replicas = 1
        strategy = made("strategy", lib.umbo_strategy_create, options)
        self.checkpoint = made("checkpoint", lib.umbo_checkpoint_create, strategy)
        self.variables = {}
        for name, array in arrays.items():
            variable = made("variable", lib.umbo_variable_create, strategy, name.encode(),
                            tensor_of(np.zeros_like(array)), ffi.NULL)
            check(lib.umbo_checkpoint_add_variable(self.checkpoint, name.encode(), variable))
            self.variables[name] = variable

    def values(self):
        return {name: array_of(lib.umbo_variable_view, variable, ffi.NULL, lib.UMBO_DTYPE_NONE).copy()
                for name, variable in self.variables.items()}

    def load(self, path, names=None):
        """What the library says; None if the variables have the tensors of the file now."""
        names = [ffi.new("char[]", name.encode()) for name in names or ()]
        try:
            array = ffi.new("char *[]", names) if names else ffi.NULL
            options = ffi.new("umbo_load_weights_options *", lib.UMBO_LOAD_WEIGHTS_OPTIONS_INIT)
            options.count, options.names = len(names), array
            check(lib.umbo_checkpoint_load_weights(self.checkpoint, os.fsencode(path), options))
        except RuntimeError as why:
            return str(why)


def array_like(kind, shape):
    values = np.arange(int(np.prod(shape)))
    return (values % 2 if kind == "bool" else values % 100).astype(kind).reshape(shape)


def same(ours, theirs):
    assert ours.keys() == theirs.keys(), f"{[*ours]} in place of {[*theirs]}"
    for name, array in theirs.items():
        assert ours[name].dtype == array.dtype and ours[name].shape == array.shape, name
        assert ours[name].tobytes() == array.tobytes(), name


def both_ways(kind, shape):
    arrays = {"a": array_like(kind, shape), "b/c": np.ones(2, np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
        save_file(arrays, theirs, {"format": "np"})
        model = Model(arrays)
        assert (why := model.load(theirs)) is None, why
        if kind != "float16":  # which views of the binding do not show
            same(model.values(), arrays)
        check(lib.umbo_checkpoint_save_weights(model.checkpoint, os.fsencode(ours), ffi.NULL))
        same(load_file(ours), arrays)
        check(lib.umbo_checkpoint_save(model.checkpoint, os.fsencode(ours)))
        same(load_file(ours), arrays)


class Agreement:
    """Mutations of a few files, each read by both."""
    ARRAYS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float64([0.5]), "n": np.arange(4)}

    def __init__(self, folder):
        self.path = os.path.join(folder, "file")
        self.model = Model(self.ARRAYS)
        self.zeros = self.model.values()
        self.accepted = self.refused = 0
        plain, own = os.path.join(folder, "plain"), os.path.join(folder, "own")
        save_file(self.ARRAYS, plain, {"format": "np"})
        check(lib.umbo_checkpoint_save_weights(self.model.checkpoint, os.fsencode(own), ffi.NULL))
        self.files = [open(path, "rb").read() for path in (plain, own)]

    def theirs(self):
        """The arrays; None if they are refused, or are not those of the variables."""
        try:
            with safe_open(self.path, "numpy") as file:
                arrays = {name: file.get_tensor(name) for name in self.ARRAYS}
        except (SafetensorError, TypeError, KeyError, OSError, ValueError, OverflowError):
            return None
        fits = all(arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
                   for name, array in self.ARRAYS.items())
        return arrays if fits else None

    def one(self, random):
        is_own = random.random() < 0.5
        file = mutated(random, self.files[is_own])
        with open(self.path, "wb") as place:
            place.write(file)
        theirs, why = self.theirs(), self.model.load(self.path)
        if why is None:
            assert theirs is not None, f"only Umbo takes {file[:400]!r}"
            same(self.model.values(), theirs)
            self.accepted += 1
            for name, zeros in self.zeros.items():
                check(lib.umbo_variable_upload(self.model.variables[name], ffi.from_buffer(zeros), zeros.nbytes))
        else:
            # A file of its own has checksums and metadata that Umbo holds it to.
            assert theirs is None or is_own, f"only Umbo refuses {file[:400]!r}: {why}"
            same(self.model.values(), self.zeros)
            self.refused += 1


def mutated(random, file):
    """A file with bits, numbers or words of its header changed, or of another length."""
    length = int.from_bytes(file[:8], "little")
    header, data = bytearray(file[8:8 + length]), file[8 + length:]
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(header))
        end = min(at + random.randint(1, 8), len(header))
        match random.randrange(9):
            case 0:
                header[at] ^= 1 << random.randrange(8)
            case 1:
                header[at] = random.choice(b'09-"[]{}:, \n\\u\x00\xff')
            case 2:
                del header[at:end]
            case 3:
                header[at:at] = header[at:end]
            case 4:  # another number, where one is
                places = [place for place, byte in enumerate(header) if 48 <= byte < 58]
                header[random.choice(places or [0])] = random.choice(b"0123456789")
            case 5:
                header.extend(b" " * random.randint(1, 16))
            case 6:
                data = data + b"\0" * random.randint(0, 2) if random.random() < 0.5 else data[:-1]
            case 7:  # the same entries in another form
                try:
                    entries = json.loads(header)
                    items = list(entries.items())
                    random.shuffle(items)
                    if random.random() < 0.3:
                        items.append(("more", {"dtype": "U8", "shape": [0], "data_offsets": [len(data)] * 2}))
                    header = bytearray(json.dumps(dict(items), indent=random.choice([None, 1])).encode())
                except (ValueError, AttributeError):
                    pass
            case 8:
                header = bytearray(bytes(header).replace(*random.choice([
                    (b"F32", b"I32"), (b"[2,3]", b"[3,2]"), (b"shape", b"shap"), (b"F64", b"F65"),
                    (b'"n"', b'"w"'), (b"0,", b"0.0,"), (b"[1]", b"[]"), (b"__metadata__", b"__metadat__")])))
    size = len(header) if random.random() < 0.9 else random.choice([0, 1, length - 1, 2**32, 2**63, 2**64 - 1])
    return size.to_bytes(8, "little") + bytes(header) + data


def agree(count, seed):
    with tempfile.TemporaryDirectory() as folder:
        agreement, drawn = Agreement(folder), random.Random(seed)
        for _ in range(count):
            agreement.one(drawn)
        assert agreement.accepted > count // 100 and agreement.refused > count // 4, "too much alike"


def cases(small):
    for kind in ["float32"] if small else KINDS:
        for shape in SHAPES:
            yield Case(f"{kind} {shape}", lambda kind=kind, shape=shape: both_ways(kind, shape))
    parts = 1 if small else 10
    for seed in range(parts):
        count = 300 if small else MUTATED // parts
        yield Case(f"{count} mutated files, seed {seed}", lambda count=count, seed=seed: agree(count, seed))
