#!/usr/bin/env python3
"""Runs a program of WebAssembly, with the first preview of WASI, in wasmtime.

    scripts/wasi.py [--folder FOLDER] PROGRAM [ARGUMENT...]

It has no files, or those of FOLDER, which is its working folder. The exit status is the program's; a program that traps, as
one that panics does, has 134.
"""

import os
import sys

import wasmtime


def main():
    given = sys.argv[1:]
    folder = None
    if given and given[0] == "--folder":
        folder, given = given[1], given[2:]
    if not given:
        sys.exit(__doc__)
    wasi = wasmtime.WasiConfig()
    wasi.argv = given
    wasi.env = [(name, text) for name, text in os.environ.items() if name.startswith("UMBO_")]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    if folder is not None:
        wasi.preopen_dir(folder, ".")
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    program = linker.instantiate(store, wasmtime.Module.from_file(engine, given[0]))
    try:
        program.exports(store)["_start"](store)
    except wasmtime.ExitTrap as ended:
        return ended.code
    except wasmtime.Trap as trap:
        print(trap, file=sys.stderr)
        return 134
    return 0


if __name__ == "__main__":
    sys.exit(main())
