#!/usr/bin/env python3
"""Measures what a change in each crate costs: which crates cargo compiles again for the library, and how long that takes.

    scripts/rebuild_times.py [--release] [CRATE...]      (default: a debug build, each crate of the library)

The library is built first. Then the first file of one crate after the other is touched, as by an editor that saves it
unchanged, and the library is built again. Prints a table for CONTRIBUTING.md. Seconds of processor time are those of cargo
and the compilers, in user mode, and hardly depend on what else the machine does; the others pass on the clock.
"""
import json
import os
import resource
import subprocess
import sys
import time

from crates import ROOT, crates, reached


def build(profile):
    """Builds the library: the crates of the library that were compiled, and the seconds of processor time and of the clock."""
    command = ["cargo", "build", "--locked", "--package", "umbo", "--message-format", "json", *profile]
    used, began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.monotonic()
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used, time.monotonic() - began
    messages = map(json.loads, output.splitlines())
    compiled = {message["target"]["name"].replace("_", "-") for message in messages
                if message["reason"] == "compiler-artifact" and not message["fresh"]}
    return compiled, seconds


def main():
    arguments = sys.argv[1:]
    profile = ["--release"] if "--release" in arguments else []
    uses = {name: below for name, (_, below) in crates().items()}
    library = {"umbo"} | reached(uses, "umbo")
    chosen = [argument for argument in arguments if argument != "--release"] or sorted(library)
    if unknown := set(chosen) - library:
        sys.exit(f"rebuild_times: no crate of the library is called {', '.join(sorted(unknown))}")
    build(profile)
    rows = []
    for name in chosen:
        folder = ROOT if name == "umbo" else ROOT / "crates" / name
        os.utime(folder / "src" / "lib.rs")
        compiled, seconds = build(profile)
        rows.append((len(compiled & library), name, seconds))
    print(f"| a change in | compiles | {'release' if profile else 'debug'}: processor | clock |")
    print("|---|---|---|---|")
    for count, name, (processor, clock) in sorted(rows):
        print(f"| `{name}` | {count} crate{'s' if count > 1 else ''} | {processor:.0f} s | {clock:.0f} s |")


if __name__ == "__main__":
    main()
