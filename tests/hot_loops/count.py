#!/usr/bin/env python3
"""Counts the instructions of hot loops, so that no compiler undoes them in silence.

    tests/hot_loops/count.py PROGRAM [--write]

The program (hot_loops.c) runs under valgrind's callgrind, which counts instructions, not time: the counts are the
same on every machine, however busy it is. Of each loop counts.txt has the instructions for 16 elements with AVX2,
and of each small step those of the whole step.
More than a tenth above that fails; --write writes what was counted.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COUNTS = HERE / "counts.txt"
HEAD = "# Instructions of each hot loop for 16 elements, and of small steps, with AVX2. count.py compares and writes them.\n"
ELEMENTS = 1 << 18
STEPS = 1 << 10
# What compilers and the rest of a call may differ by.
MOST = 1.1


def skip(reason):
    sys.exit(subprocess.run([HERE.parents[1] / "scripts" / "skip.sh", "hot_loops", reason]).returncode)


def counted(program):
    """The instructions of each loop for 16 elements, and of each step."""
    totals = {}
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder}/out", program]
        environment = {"UMBO_INSTRUCTION_SET": "avx2", "PATH": "/usr/bin:/bin"}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{ended.stderr}")
        for file in pathlib.Path(folder).iterdir():
            text = file.read_text()
            what = re.search(r"^desc: Trigger: Client Request: (\d)\|(.*)$", text, re.MULTILINE)
            total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
            if what:
                totals[what[2], int(what[1])] = int(total[1])
    names = [name for name, times in totals if times == 1]
    units = {name: STEPS if name.startswith("step: ") else ELEMENTS / 16 for name in names}
    return {name: (totals[name, 2] - totals[name, 1]) / units[name] for name in names}


def main():
    if shutil.which("valgrind") is None:
        skip("valgrind counts the instructions, and is not here")
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    if not {"avx2", "fma", "f16c"} <= set(flags):
        skip("the counts are those of AVX2 with FMA and F16C")
    found = counted(sys.argv[1])
    if "--write" in sys.argv:
        COUNTS.write_text(HEAD + "".join(f"{found[name]:.0f} {name}\n" for name in sorted(found)))
        return
    rows = [line.split(" ", 1) for line in COUNTS.read_text().splitlines() if not line.startswith("#")]
    allowed = {name: float(count) for count, name in rows}
    if allowed.keys() != found.keys():
        sys.exit(f"counts.txt and the program differ in {sorted(allowed.keys() ^ found.keys())}")
    slow = [name for name in found if found[name] > MOST * allowed[name]]
    for name in sorted(found):
        note = "  <- more than a tenth above" if name in slow else ""
        print(f"{found[name]:6.1f} of {allowed[name]:4.0f}  {name}{note}")
    if slow:
        sys.exit(
            "A loop takes more instructions than before: look at what the compiler made of it. "
            "If that is meant, tests/hot_loops/count.py PROGRAM --write writes the counts anew."
        )


if __name__ == "__main__":
    main()
