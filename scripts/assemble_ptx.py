#!/usr/bin/env python3
"""Assembles the kernels for every generation of GPUs, and says what each kernel takes.

    scripts/assemble_ptx.py [--check] [PTXAS]

Writes the table between the marks of docs/internals/gpu-results.md, or, with --check, fails if it is not what
is there. Fails if a kernel keeps registers in memory (spills). PTXAS is NVIDIA's assembler; without it, one on the PATH is used (pip install
nvidia-cuda-nvcc brings one). Exit code 77: there is none.
"""

import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKED = ROOT / "crates/umbo-kernels/src/cuda/umbo.ptx.lzma"
RESULTS = ROOT / "docs/internals/gpu-results.md"
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
# What the names of all kernels begin with, and no name of the C API in the documents may.
PREFIX = "umbo_"
BEGIN, END = "<!-- assembled: begin -->", "<!-- assembled: end -->"


def assemble(ptxas, module, architecture, folder):
    """Registers, and bytes of spills, of each kernel."""
    command = [ptxas, "-v", f"-arch={architecture}", module, "-o", folder / "umbo.cubin"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"assemble_ptx: {module.name} for {architecture}: {done.stderr}")
    kernels, name, spills = {}, None, 0
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name, spills = found[1], 0
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills = int(found[1]) + int(found[2])
        elif found := re.search(r"Used (\d+) registers", line):
            kernels[name] = (int(found[1]), spills)
    return kernels


def table(ptxas):
    version = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"V([\d.]+)", version.stdout)[1]
    found = {architecture: {} for architecture in ARCHITECTURES}
    ptx = lzma.decompress(PACKED.read_bytes())
    names = re.findall(r"\.visible \.entry (\w+)\(", ptx.decode())
    with tempfile.TemporaryDirectory() as folder:
        module = pathlib.Path(folder) / "umbo.ptx"
        module.write_bytes(ptx)
        for architecture, kernels in found.items():
            kernels.update(assemble(ptxas, module, architecture, pathlib.Path(folder)))
    lines = [
        f"ptxas {version}. Registers of a thread. No kernel spills.",
        "",
        "| kernel | " + " | ".join(ARCHITECTURES) + " |",
        "|---|" + "---|" * len(ARCHITECTURES),
    ]
    for name in names:
        cells = []
        for architecture in ARCHITECTURES:
            registers, spills = found[architecture][name]
            if spills:
                sys.exit(f"assemble_ptx: {name} spills {spills} bytes on {architecture}")
            cells.append(str(registers))
        lines.append(f"| `{name.removeprefix(PREFIX)}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    words = sys.argv[1:]
    check = "--check" in words
    words = [word for word in words if word != "--check"]
    ptxas = words[0] if words else shutil.which("ptxas")
    if not ptxas:
        print("assemble_ptx: there is no ptxas (pip install nvidia-cuda-nvcc)", file=sys.stderr)
        sys.exit(77)
    text = RESULTS.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    fresh = f"{before}{BEGIN}\n{table(ptxas)}\n{END}{after}"
    if not check:
        RESULTS.write_text(fresh)
    elif fresh != text:
        sys.exit("assemble_ptx: docs/internals/gpu-results.md has another table; run scripts/assemble_ptx.py")


if __name__ == "__main__":
    main()
