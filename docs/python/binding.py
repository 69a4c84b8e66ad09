"""Umbo for Python programs: the C functions through cffi, arrays through NumPy.

Needs NumPy 2, cffi and a C compiler. cffi reads the installed headers as they are. The folders of the headers
and of the library are $LIBUMBO_INCLUDE and $LIBUMBO_FOLDER."""
import ctypes, os, re, subprocess, sys, tempfile
import cffi
import numpy as np

INCLUDE, LIBRARY = (os.path.abspath(os.environ[name]) for name in ("LIBUMBO_INCLUDE", "LIBUMBO_FOLDER"))
NUMPY = [None, "f2", None, "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]  # by umbo_dtype


def bind():
    """The library's functions, and what cffi makes objects of C with."""
    source = "#include <umbo/umbo.h>\n#include <umbo/dlpack.h>\n"
    command = ["cc", "-E", "-std=c99", "-I", INCLUDE, "-D__attribute__(x)=", "-"]
    text, ours = "", False
    for line in subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("# "):  # where the next lines come from
            ours = "/umbo/" in line.split('"')[1]
        elif ours:
            text += line + "\n"
    # Of functions that the headers define, cffi needs the prototypes alone.
    text = re.sub(r"static inline ([^{;]*)\{(?:[^\n]*\}$|.*?^\})", r"\1;", text, flags=re.S | re.M)
    builder = cffi.FFI()
    builder.cdef(text)
    builder.set_source("_umbo", source, include_dirs=[INCLUDE], libraries=["umbo"], library_dirs=[LIBRARY],
                       runtime_library_dirs=[LIBRARY])
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        builder.compile(tmpdir=folder)
        import _umbo
    return _umbo.ffi, _umbo.lib


ffi, lib = bind()
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
capsule_rename = ctypes.pythonapi.PyCapsule_SetName
capsule_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
raised = {}  # exceptions on their way home, by the address that the library has of them


def check(status):
    """Raises what a callback has raised, or what the library says."""
    info = ffi.new("umbo_error_info *", lib.umbo_error_info_default())
    for index in range(lib.umbo_last_error_count() if status else 0):
        if lib.umbo_last_error_at(index, info) == 0 and info.payload:
            raise ffi.from_handle(info.payload)
    if status:
        raise RuntimeError(ffi.string(lib.umbo_last_error_message()).decode())


def made(kind, create, *arguments):
    """A new object, which is released when Python no longer has it."""
    place = ffi.new(f"umbo_{kind} **")
    check(create(*arguments, place))
    return ffi.gc(place[0], getattr(lib, f"umbo_{kind}_release"))


@ffi.callback("void (void *)")
def forget(payload):
    raised.pop(payload, None)


def on_replicas(function):
    """A Python function as a callback: an exception fails the run and is raised again where it began."""
    @ffi.callback("umbo_replica_fn", error=lib.UMBO_STATUS_UNKNOWN)
    def callback(context, args, user_data, result):
        try:
            function(context, args)
            return 0
        except BaseException as error:
            handle = ffi.new_handle(error)
            raised[ffi.cast("void *", handle)] = handle
            return lib.umbo_set_last_error(lib.UMBO_STATUS_UNKNOWN, repr(error).encode(), handle, forget)
    return callback


def array_of(get, *arguments):
    """The elements of a view, in place. They are there as long as the view is valid."""
    view = ffi.new("umbo_view *")
    check(get(*arguments, view))
    rank, size = view.rank, view.element_bytes
    shape, strides = list(view.shape[0:rank]), [stride * size for stride in view.strides[0:rank]]
    extent = size + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
    memory = ffi.buffer(ffi.cast("char *", view.mutable_data or view.data), extent)
    array = np.ndarray(shape, NUMPY[view.dtype], memory, strides=strides)
    array.flags.writeable = bool(view.mutable_data)
    return array


def tensor_of(array):
    """A tensor over the memory of an array."""
    capsule = array.__dlpack__(max_version=(1, 0))
    managed = ffi.cast("struct DLManagedTensorVersioned *", capsule_pointer(capsule, b"dltensor_versioned"))
    tensor = made("tensor", lib.umbo_tensor_from_dlpack, managed)
    capsule_rename(capsule, b"used_dltensor_versioned")
    return tensor


class Exported:
    """What np.from_dlpack() takes: an array over the memory of a tensor."""
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        managed = ffi.new("struct DLManagedTensorVersioned **")
        check(lib.umbo_tensor_to_dlpack(self.tensor, managed))
        return capsule_new(int(ffi.cast("uintptr_t", managed[0])), b"dltensor_versioned", None)
