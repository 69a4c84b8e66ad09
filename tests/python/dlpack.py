"""Arrays of Python's libraries as tensors of Umbo, and tensors as arrays, by DLPack.

dlpack.py LIBUMBO: checks NumPy 2.1, which has to be there, and PyTorch and JAX, which have to be where nothing may be
skipped (UMBO_NO_SKIPS).
"""
import ctypes
import gc
import importlib.util
import os
import sys
import threading
import weakref

OK, INVALID_ARGUMENT, UNIMPLEMENTED = 0, 3, 12
HANDLE_TENSOR = 1
VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"
USED = {VERSIONED: b"used_dltensor_versioned", LEGACY: b"used_dltensor"}
READ_ONLY = 1


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("mutable_data", ctypes.c_void_p), ("element_bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("device_type", ctypes.c_int32),
        ("ordinal", ctypes.c_int32), ("flags", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8), ("reserved", ctypes.c_uint64 * 3)]


def foreign(name, result, *arguments):
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


capsule_new = foreign("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
capsule_name = foreign("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
capsule_pointer = foreign("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
capsule_rename = foreign("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


def check(status):
    if status != OK:
        umbo.umbo_last_error_message.restype = ctypes.c_char_p
        raise RuntimeError(f"{status}: {umbo.umbo_last_error_message().decode()}")


class Tensor:
    """A tensor of Umbo."""

    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        umbo.umbo_release(self.handle, HANDLE_TENSOR)

    def view(self):
        view = View()
        check(umbo.umbo_tensor_mutable_view(self.handle, ctypes.byref(view)))
        return view

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None, max_version=None, **_):
        name = VERSIONED if max_version and max_version[0] >= 1 else LEGACY
        form = "" if name == VERSIONED else "_legacy"
        managed = ctypes.c_void_p()
        check(getattr(umbo, "umbo_tensor_to_dlpack" + form)(self.handle, ctypes.byref(managed)))
        return capsule_new(managed, name, None)


def imported(capsule):
    """The status, and a tensor over what the capsule has."""
    name = capsule_name(capsule)
    form = "" if name == VERSIONED else "_legacy"
    handle = ctypes.c_void_p()
    function = getattr(umbo, "umbo_tensor_from_dlpack" + form)
    status = function(ctypes.c_void_p(capsule_pointer(capsule, name)), ctypes.byref(handle))
    if status != OK:
        return status, None  # still the capsule's, which releases it
    capsule_rename(capsule, USED[name])
    return OK, Tensor(handle)


def taken(array, **options):
    status, tensor = imported(array.__dlpack__(**options))
    check(status)
    return tensor


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def elements(view):
    """The elements of a small view, in row-major order, by their addresses."""
    kinds = {3: ctypes.c_float, 4: ctypes.c_double, 7: ctypes.c_int32, 8: ctypes.c_int64, 13: ctypes.c_bool}
    kind, found = kinds[view.dtype], []

    def walk(axis, address):
        if axis == view.ndim:
            found.append(kind.from_address(address).value)
            return
        for index in range(view.shape[axis]):
            walk(axis + 1, address + index * view.strides[axis] * view.element_bytes)

    walk(0, view.data)
    return found


def released_elsewhere(tensor):
    """Releases the tensor on another thread."""
    box = [tensor]
    thread = threading.Thread(target=box.clear)
    del tensor
    thread.start()
    thread.join()


# Functions and memory that Umbo uses until it says that it does not.
kept = []


def floats(count, gone):
    """A tensor of Umbo over memory of ours; `gone` grows when nobody uses it any more."""
    memory = (ctypes.c_float * count)(*range(count))
    destroyed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gone.append(1))
    kept.extend((memory, destroyed))
    shape = (ctypes.c_int64 * 1)(count)
    handle = ctypes.c_void_p()
    check(umbo.umbo_tensor_from_memory(3, 1, shape, None, memory, None, None, destroyed, ctypes.byref(handle)))
    return Tensor(handle), memory


def check_numpy():
    import numpy as np

    dtypes = {np.float16: 1, np.float32: 3, np.float64: 4, np.int8: 5, np.int16: 6, np.int32: 7, np.int64: 8,
              np.uint8: 9, np.uint16: 10, np.uint32: 11, np.uint64: 12, np.bool_: 13}
    for dtype, code in dtypes.items():
        array = np.zeros((2, 3), dtype)
        for options in ({}, {"max_version": (1, 0)}):
            view = taken(array, **options).view()
            expect(view.dtype == code and view.data == array.ctypes.data, f"{dtype}: another memory")
            expect(view.mutable_data == view.data, f"{dtype}: not to be written")
    base = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    for array in (base, base.T, base[:, ::2, 1:], np.array(2.5), base[:0], base[:, :, ::4],
                  np.broadcast_to(base[0, 0], (3, 4)), base[1:1, ::-1]):
        # Arrays that may only be read are given in the newer form alone.
        tensor = taken(array, max_version=(1, 0))
        view = tensor.view()
        expect(list(view.shape[:view.ndim]) == list(array.shape), "another shape")
        expect(elements(view) == array.ravel().tolist(), "other elements")
        expect(array.size == 0 or view.data == array.ctypes.data, "a copy")
        expect((view.mutable_data is None) == (not array.flags.writeable), "read-only")
    # Written on both sides.
    tensor, array = taken(base), base
    ctypes.c_double.from_address(tensor.view().mutable_data).value = 77
    expect(array[0, 0, 0] == 77, "written elsewhere")

    # What is refused is still NumPy's.
    refused = base[:, ::-1]
    capsule = refused.__dlpack__()
    expect(imported(capsule)[0] == UNIMPLEMENTED, "strides backwards")
    expect(capsule_name(capsule) == LEGACY, "the capsule was used")
    del capsule
    expect(imported(np.zeros(3, np.complex64).__dlpack__())[0] == UNIMPLEMENTED, "complex numbers")
    swapped = np.arange(3, dtype=np.dtype(np.float32).newbyteorder())
    try:
        expect(imported(swapped.__dlpack__())[0] != OK, "bytes in the other order")
    except BufferError:
        pass  # NumPy does not give it
    misaligned = np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float64)
    try:
        expect(imported(misaligned.__dlpack__())[0] == INVALID_ARGUMENT, "misaligned")
    except BufferError:
        pass  # NumPy does not give it

    # The array lives as long as the tensor, which is released on another thread.
    class Owned(np.ndarray):
        pass

    array = np.arange(5, dtype=np.float32).view(Owned)
    alive = weakref.ref(array)
    tensor = taken(array)
    del array
    gc.collect()
    expect(alive() is not None and elements(tensor.view()) == [0, 1, 2, 3, 4], "gone too early")
    released_elsewhere(tensor)
    del tensor
    gc.collect()
    expect(alive() is None, "never released")

    # From Umbo: the same memory, which lives as long as the array.
    gone = []
    tensor, memory = floats(6, gone)
    array = np.from_dlpack(tensor)
    expect(array.ctypes.data == ctypes.addressof(memory), "a copy")
    part = array[::2]
    del tensor, array
    gc.collect()
    memory[4] = 9
    expect(not gone and part.tolist() == [0, 2, 9], "gone too early")
    del part
    gc.collect()
    expect(gone == [1], "released once")
    tensor, memory = floats(6, gone)
    part = ctypes.c_void_p()
    check(umbo.umbo_tensor_slice(tensor.handle, 0, ctypes.c_int64(1), ctypes.c_int64(6), ctypes.c_int64(2),
                                 ctypes.byref(part)))
    expect(np.from_dlpack(Tensor(part)).tolist() == [1, 3, 5], "a slice")
    # Back and forth.
    there = np.from_dlpack(taken(np.from_dlpack(tensor)))
    expect(there.ctypes.data == ctypes.addressof(memory), "a copy on the way")

    # What may only be read.
    constant = np.arange(3, dtype=np.int64)
    constant.flags.writeable = False
    tensor = taken(constant, max_version=(1, 0))
    expect(not np.from_dlpack(tensor).flags.writeable, "could be written")
    managed = ctypes.c_void_p()
    expect(umbo.umbo_tensor_to_dlpack_legacy(tensor.handle, ctypes.byref(managed)) == INVALID_ARGUMENT,
           "the older form cannot say so")


def check_other(from_dlpack, address, make):
    """A library that exports and imports float32 vectors."""
    array = make(5)
    tensor = taken(array)
    expect(tensor.view().data == address(array), "a copy")
    del array
    gc.collect()
    expect(elements(tensor.view()) == [0, 1, 2, 3, 4], "gone too early")
    gone = []
    tensor, _ = floats(64, gone)
    array = from_dlpack(tensor)
    del tensor
    gc.collect()
    expect([float(number) for number in array][:4] == [0, 1, 2, 3], "other elements")
    del array
    gc.collect()
    expect(gone == [1], "released once")


def check_torch():
    import torch

    check_other(torch.from_dlpack, lambda tensor: tensor.data_ptr(),
                lambda count: torch.arange(count, dtype=torch.float32))
    half = torch.zeros(3, dtype=torch.bfloat16)
    expect(taken(half).view().dtype == 2, "bfloat16")


def check_jax():
    import jax.numpy as jnp

    check_other(jnp.from_dlpack, lambda array: array.unsafe_buffer_pointer(),
                lambda count: jnp.arange(count, dtype=jnp.float32))


def main():
    global umbo
    umbo = ctypes.CDLL(sys.argv[1])
    umbo.umbo_release.restype = None
    for name, checks in ("numpy", check_numpy), ("torch", check_torch), ("jax", check_jax):
        if importlib.util.find_spec(name) is None:
            expect(not os.environ.get("UMBO_NO_SKIPS"), f"{name} is not installed")
            print(f"{name}: not installed")
            continue
        checks()
        print(f"{name}: fine")


if __name__ == "__main__":
    main()
