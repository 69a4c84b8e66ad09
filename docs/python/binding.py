"""Umbo for Python programs: the C functions through cffi, arrays of NumPy, JAX and others through DLPack.

Needs NumPy 2.1 and cffi, and no C compiler: the installed headers are read as they are. The folders of the headers
and of the library are $LIBUMBO_INCLUDE and $LIBUMBO_FOLDER."""
import ctypes, os, pathlib, re
import cffi
import numpy as np

INCLUDE, LIBRARY = (pathlib.Path(os.environ[name]).absolute() for name in ("LIBUMBO_INCLUDE", "LIBUMBO_FOLDER"))
NUMPY = dict(FLOAT16="f2", FLOAT32="f4", FLOAT64="f8", INT8="i1", INT16="i2", INT32="i4", INT64="i8",
             UINT8="u1", UINT16="u2", UINT32="u4", UINT64="u8", BOOL="?")  # by the names of umbo_dtype


class Library:
    """The library's functions, the enums and constants of its headers, umbo_..._retain() and _release()."""
    def __init__(self):
        seen = set()
        def included(header):  # each once, behind what it includes
            if header[1] in seen:
                return ""
            seen.add(header[1])
            return re.sub("^#include <(umbo/.*)>", included, (INCLUDE / header[1]).read_text(), flags=re.M)
        text = included(("", "umbo/all.h")) + included(("", "umbo/dlpack.h"))
        text = re.sub(r"/\*.*?\*/|//[^\n]*|\\\n", "", text, flags=re.S)
        text = re.sub(r"^#ifdef __cplusplus\n[^#]*#(else|endif)", "", text, flags=re.M)
        # Where a compiler would have a choice, the last definition of a macro is that of plain C.
        self.macros = dict(re.findall(r"^#define (\w+) +(.*)", text, flags=re.M))
        text = re.sub(r"static inline [^{;]*(?:;|\{(?:.*\}$|(?:.*\n)*?\}))|^#.*|UMBO_API|UMBO_MUST_USE|UMBO_NO_RETURN", "", text, flags=re.M)
        ffi.cdef(text.replace(" UMBO_INT32 {", " {"))
        self.functions = ffi.dlopen(str(LIBRARY / "libumbo.so"))

    def value(self, text):
        """What the C expression of a macro is: numbers, constants and lists of them."""
        text = re.sub(r"\w+_defaults", lambda name: self.macros[name[0]], text).replace("NULL", "ffi.NULL")
        text = re.sub(r"UMBO_STRUCT_SIZE\((\w+)\)", lambda name: f"UMBO_STRUCT_MARK + {ffi.sizeof(name[1])}", text)
        text = re.sub(r"UMBO_ENUM_VALUE\(\w+, (.*?)\)", r"\1", text).translate({ord("{"): "[", ord("}"): "]"})
        return eval(re.sub(r"[A-Z]+_\w+", lambda name: f"lib.{name[0]}", text))

    def __getattr__(self, name):
        if of_type := re.fullmatch(r"umbo_(\w+)_(retain|release)", name):  # inline in C, each over one function
            kind, verb = getattr(self, f"UMBO_HANDLE_{of_type[1].upper()}"), getattr(self, f"umbo_{of_type[2]}")
            made = lambda handle, *retained: verb(handle, kind, *retained)
        else:
            made = self.value(self.macros[name]) if name in self.macros else getattr(self.functions, name)
        setattr(self, name, made)
        return made


ffi = cffi.FFI()
lib = Library()
DTYPES = {getattr(lib, f"UMBO_DTYPE_{name}"): code for name, code in NUMPY.items()}

def of_python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


# Capsules go by their addresses: while one is dropped, nobody may keep it.
drop_type = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
capsule_new = of_python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, drop_type)
capsule_name = of_python("PyCapsule_GetName", ctypes.c_char_p, ctypes.c_void_p)
capsule_pointer = of_python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
capsule_rename = of_python("PyCapsule_SetName", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
# By the names of DLPack's capsules: the struct, and what gives and takes it.
FORMS = {b"dltensor_versioned": ("struct DLManagedTensorVersioned *", lib.umbo_tensor_to_dlpack,
                                 lib.umbo_tensor_from_dlpack),
         b"dltensor": ("struct DLManagedTensor *", lib.umbo_tensor_to_dlpack_legacy, lib.umbo_tensor_from_dlpack_legacy)}
USED = {name: b"used_" + name for name in FORMS}  # kept, since capsules have the address of their name alone
raised = {}  # exceptions on their way home, by the address that the library has of them


def check(status):
    """Raises what a callback has raised, or what the library says."""
    if not status:
        return
    info = ffi.new("umbo_error_info *", lib.UMBO_ERROR_INFO_INIT)
    for index in range(lib.umbo_last_error_count()):
        if lib.umbo_last_error_at(index, info) == 0 and info.payload:
            error = ffi.from_handle(info.payload)
            lib.umbo_clear_last_error()  # the library keeps it no longer than Python does
            raise error
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
        lib.umbo_callback_keep_handles()  # objects of Python own them
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
    return shown(view)


def shown(view):
    """The elements that a view shows, likewise."""
    ndim, size = view.ndim, view.element_bytes
    shape, strides = list(view.shape[0:ndim]), [stride * size for stride in view.strides[0:ndim]]
    extent = size + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
    memory = ffi.buffer(ffi.cast("char *", view.mutable_data or view.data), extent)
    array = np.ndarray(shape, DTYPES[view.dtype], memory, strides=strides)
    array.flags.writeable = bool(view.mutable_data)
    return array


def managed_by(capsule):
    """What the capsule at an address (its id) has, and its name."""
    name = capsule_name(capsule)
    return (ffi.cast(FORMS[name][0], capsule_pointer(capsule, name)) if name in FORMS else None), name


def tensor_of(array):
    """A tensor over the memory of an array of NumPy's, JAX's or any other that DLPack gives."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library that knows the older form alone
        capsule = array.__dlpack__()
    managed, name = managed_by(id(capsule))
    tensor = made("tensor", FORMS[name][2], managed)
    capsule_rename(id(capsule), USED[name])
    return tensor


@drop_type
def drop(capsule):
    managed, name = managed_by(capsule)
    if managed:  # nobody took it
        managed.deleter(managed)


class Exported:
    """What np.from_dlpack() and its kin take: an array over the memory of a tensor."""
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is not None:
            raise RuntimeError("memory of the CPU has no streams")
        if copy or tuple(dl_device or (1, 0)) != (1, 0):
            raise BufferError("the tensor is given in place, which is memory of the CPU")
        name = b"dltensor_versioned" if max_version and max_version[0] >= 1 else b"dltensor"
        kind, give, _ = FORMS[name]
        managed = ffi.new(kind + "*")
        try:
            check(give(self.tensor, managed))
        except RuntimeError as why:  # what cannot be given so, as the protocol has it
            raise BufferError(str(why)) from None
        return capsule_new(int(ffi.cast("uintptr_t", managed[0])), name, drop)
