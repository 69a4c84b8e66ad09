#!/usr/bin/env python3
"""Writes what tests/abi promises from the headers include/umbo/*.h: the functions to symbols.txt, those of gpu.h, which
are not promised, to experimental.txt, and the structs, as cc lays them out, to layout.txt."""
import pathlib
import re
import subprocess
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include/umbo"
LAYOUT = ROOT / "tests/abi/layout.txt"
SYMBOLS = ROOT / "tests/abi/symbols.txt"
EXPERIMENTAL = ROOT / "tests/abi/experimental.txt"


def read(name, seen):
    """The text of a header behind that of the headers that it includes, each once."""
    text = (HEADERS / name).read_text()
    before = ""
    for included in re.findall(r"^#include <umbo/(\w+\.h)>", text, flags=re.M):
        if included not in seen:
            seen.add(included)
            before += read(included, seen)
    return before + text


def functions(text):
    """The functions that are exported."""
    return set(re.findall(r"UMBO_API [\w* ]*?\b(umbo_\w+)\(", text))


def structs(text):
    """Name and fields of each struct that is defined, in order."""
    for name, body in re.findall(r"struct (umbo_\w+) \{(.*?)\n\}", text, flags=re.S):
        fields = []
        for declaration in filter(None, map(str.strip, body.split(";"))):
            function = re.search(r"\(\*(\w+)\)", declaration)
            plain = re.search(r"(\w+)(?:\[[^\]]*\])*$", declaration)
            fields.append((function or plain).group(1))
        yield name, fields


def main():
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", read("all.h", set()), flags=re.S)
    gpu = re.sub(r"/\*.*?\*/|//[^\n]*", "", (HEADERS / "gpu.h").read_text(), flags=re.S)
    for path, names in [(SYMBOLS, functions(text) - functions(gpu)), (EXPERIMENTAL, functions(gpu))]:
        path.write_text("\n".join(sorted(names)) + "\n")

    experimental = {name for name, _ in structs(gpu)} | {"umbo_gpu_update"}
    found = [(name, fields) for name, fields in structs(text) if name not in experimental]
    lines = ["#include <stdio.h>", "#include <stddef.h>", "#include <umbo/all.h>", "int main(void) {"]
    for name, fields in found:
        lines.append(f'printf("{name} %zu", sizeof({name}));')
        for number, field in enumerate(fields):
            lines.append(f'printf("{", " if number else ": "}{field} %zu", offsetof({name}, {field}));')
        lines.append('puts("");')
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "layout"
        source = program.with_suffix(".c")
        source.write_text("\n".join(lines))
        subprocess.run(["cc", f"-I{ROOT / 'include'}", source, "-o", program], check=True)
        layout = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    filled = [textwrap.fill(line, 118, subsequent_indent="  ") for line in layout.splitlines()]
    LAYOUT.write_text("\n".join(filled) + "\n")


main()
