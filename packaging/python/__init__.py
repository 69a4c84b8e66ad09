"""Umbo: central-storage data-parallel training for C and C++. This package has the library, its headers and its CMake files.

`python -m umbo --help` says where they are. `umbo.binding` calls the library's functions from Python, and needs NumPy 2.1 and cffi.
"""
import os
import pathlib

__version__ = "@VERSION@"
_HERE = pathlib.Path(__file__).absolute().parent


def include_dir():
    """The folder for a compiler's -I."""
    return str(_HERE / "include")


def library_dir():
    """The folder for a linker's -L, and for LD_LIBRARY_PATH."""
    return str(_HERE / "@LIBRARIES@")


def library():
    """The shared library itself."""
    return str(_HERE / "@LIBRARIES@" / "@SONAME@")


def cmake_dir():
    """The folder for CMake's -Dumbo_DIR=."""
    return str(_HERE / "@LIBRARIES@" / "cmake" / "umbo")


def pkgconfig_dir():
    """The folder for PKG_CONFIG_PATH."""
    return str(_HERE / "@LIBRARIES@" / "pkgconfig")


# For the binding, unless the program has others in mind.
os.environ.setdefault("LIBUMBO_INCLUDE", include_dir())
os.environ.setdefault("LIBUMBO_FOLDER", library_dir())
