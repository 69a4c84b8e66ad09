"""DLPack: NumPy's own tests of it over tensors of Umbo, and every other library of arrays in both directions.

NumPy's tests are run as they are, except for the arrays that they make: what those give to others by DLPack, a tensor of
Umbo gives, which was made of them by DLPack."""
import importlib.util
import io
import itertools
import types

import numpy as np
from binding import Exported, array_of, lib, tensor_of
from frame import Case, NotApplicable

TITLE = "DLPack: NumPy's `test_dlpack.py`; NumPy, PyTorch and JAX both ways"
JUDGE = tuple(name for name in ("numpy", "torch", "jax") if importlib.util.find_spec(name))


class Array(np.ndarray):
    """An array that others get through a tensor."""
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy not in (None, True, False):
            raise ValueError("copy is None, True or False")
        source = self.copy() if copy else self
        tensor = tensor_of(types.SimpleNamespace(
            __dlpack__=lambda max_version: np.ndarray.__dlpack__(source, max_version=max_version)))
        return Exported(tensor).__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)


class Substituted(types.ModuleType):
    """NumPy, whose new arrays are those."""
    def __getattr__(self, name):
        found = getattr(np, name)
        if name == "ndarray":
            return Array
        if name in ("arange", "array", "asarray", "zeros", "ones"):
            return lambda *of, **options: found(*of, **options).view(Array)
        return found


def numpys(small):
    """The tests of NumPy, each a case."""
    import pytest
    from numpy._core.tests import test_dlpack
    spec = importlib.util.spec_from_file_location("judged_dlpack", test_dlpack.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = Substituted("numpy")
    instance = module.TestDLPack()
    for name in dir(instance):
        test = getattr(instance, name)
        if not name.startswith("test"):
            continue
        marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        names = [given[0] for given in marks]
        for values in itertools.product(*(given_now(module, given) for given in marks)):
            label = f"{name}[{', '.join(map(shortly, values))}]" if values else name
            if not small or name in ("test_non_contiguous", "test_readonly", "test_from_dlpack_refcount"):
                yield Case(label, lambda test=test, how=dict(zip(names, values)): numpys_one(test, how))


def given_now(module, given):
    """The parameters of a test; arrays are made anew, since the module's were made before the substitution."""
    name, values = given
    return list(module.new_and_old_dlpack()) if name == "arr" else list(values)


def shortly(value):
    return type(value).__name__ if isinstance(value, np.ndarray) else getattr(value, "__name__", str(value))


def numpys_one(test, how):
    if how.get("dtype") in (np.complex64, np.complex128):
        raise NotApplicable("complex numbers, which Umbo does not have")
    if how.get("ndim", 0) > 8:
        raise NotApplicable("more than 8 dimensions, which Umbo does not have")
    import pytest
    try:
        test(**how)
    except pytest.fail.Exception as failed:
        raise AssertionError(str(failed)) from None


KINDS = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "bool", "bfloat16"]
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3), (1, 4, 2), (2, 1, 2, 1, 2, 1, 2, 1)]


def both_ways(library, kind, shape, strided):
    """An array of theirs, as a tensor, as an array of theirs."""
    # What a bfloat16 holds exactly, which NumPy does not have.
    values = np.arange(int(np.prod(shape)) * (2 if strided else 1)) % (2 if kind == "bool" else 100)
    values = values.astype("float32" if kind == "bfloat16" else kind)
    values = values.reshape((*shape[:-1], 2 * shape[-1]))[..., ::2] if strided else values.reshape(shape)
    theirs, back = library(values, kind)
    tensor = tensor_of(theirs)
    if "16" not in kind:
        assert np.array_equal(array_of(lib.umbo_tensor_view, tensor), values)
    del theirs
    again = back(Exported(tensor))
    del tensor
    assert again.dtype == values.dtype and again.shape == shape and np.array_equal(again, values)


def of_numpy(values, kind):
    if kind == "bfloat16":
        raise NotApplicable("bfloat16, which NumPy does not have")
    return values, np.from_dlpack


def of_torch(values, kind):
    import torch
    back = lambda exported: torch.from_dlpack(exported).to(getattr(torch, values.dtype.name)).numpy()
    theirs = torch.from_numpy(values)
    return theirs.to(torch.bfloat16) if kind == "bfloat16" else theirs, back


def of_jax(values, kind):
    import jax
    jax.config.update("jax_enable_x64", True)
    if not values.flags.c_contiguous:
        raise NotApplicable("strides, which arrays of JAX do not have")
    back = lambda exported: np.asarray(jax.dlpack.from_dlpack(exported).astype(values.dtype))
    return jax.numpy.asarray(values, dtype=kind), back


def cases(small):
    yield from numpys(small)
    for name, library in {"numpy": of_numpy, "torch": of_torch, "jax": of_jax}.items():
        if importlib.util.find_spec(name) is None:
            continue
        for kind, shape, strided in itertools.product(KINDS, SHAPES, (False, True)):
            if strided and not shape or small and (kind, strided) != ("float32", False):
                continue
            run = lambda l=library, k=kind, s=shape, t=strided: both_ways(l, k, s, t)
            yield Case(f"{name} {kind} {shape}{' strided' if strided else ''}", run)
