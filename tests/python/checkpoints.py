"""checkpoints.py PROGRAM: Python reads what Umbo saves, and Umbo what Python saves."""
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def run(what, path):
    out = subprocess.run([sys.argv[1], what, path], check=True, capture_output=True, text=True).stdout
    return numpy.array([float(line) for line in out.split()], dtype=numpy.float32)


with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "training.safetensors")
    values = run("save", path)
    tensors = load_file(path)
    assert sorted(tensors) == ["adam/dense/kernel/m", "adam/dense/kernel/v", "dense/kernel"], sorted(tensors)
    assert tensors["dense/kernel"].shape == (2, 3)
    assert (tensors["dense/kernel"].ravel() == values).all()
    assert (tensors["adam/dense/kernel/v"].ravel()[1:] > 0).all()
    with safe_open(path, "numpy") as opened:
        own = json.loads(opened.metadata()["umbo"])
    assert (own["format"], own["steps"]) == (1, 3)
    assert own["objects"]["adam"]["iterations"] == 3
    assert own["objects"]["loss"]["value"] == 0.1
    # As docs/checkpoints.md says.
    file = path.read_bytes()
    end = 8 + int.from_bytes(file[:8], "little")
    assert int(file[62:70], 16) == zlib.crc32(file[:62] + b"00000000" + file[70:end])
    for name, tensor in tensors.items():
        assert int(own["checksums"]["tensors"][name], 16) == zlib.crc32(tensor.tobytes()), name

    others = pathlib.Path(folder, "others.safetensors")
    weights = numpy.arange(6, dtype=numpy.float32).reshape(2, 3) / 8
    save_file({"encoder.weight": weights, "more": numpy.zeros(4, numpy.int8)}, others, {"format": "np"})
    assert (run("load", others) == weights.ravel()).all()

    run("arrays", pathlib.Path(folder, "array"))
    expected = numpy.arange(6, dtype=numpy.float32).reshape(2, 3) + numpy.float32(0.5)
    array, arrays = numpy.load(pathlib.Path(folder, "array.npy")), numpy.load(pathlib.Path(folder, "array.npz"))
    assert (array == expected).all() and array.dtype == numpy.float32 and array.shape == (2, 3)
    assert sorted(arrays) == ["first", "second"] and (arrays["second"] == expected).all()
print("Python reads Umbo's files, and Umbo Python's")
