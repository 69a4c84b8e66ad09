#!/usr/bin/env python3
"""Writes what tests/abi promises from the headers include/umbo/*.h: the functions to symbols.txt, those of gpu.h, which
are not promised, to experimental.txt, the structs, as cc lays them out, to layout.txt, the constants and the defaults of
structs, which are compiled into programs, to constants.txt, and all types of functions, structs and enums, as abidw of
abigail-tools sees them, to libumbo.abi.

  scripts/bless_abi.py                    writes all five; without abidw it leaves libumbo.abi as it is, and says so
  scripts/bless_abi.py --constants        compares constants.txt with the headers
  scripts/bless_abi.py --compare LIBRARY  compares libumbo.abi with the headers and with the symbols and versions of a
                                          library by abidiff; exits with 77 if that is not installed

The types are those of the headers: abidw reads them from a library of the same functions, empty, that cc compiles. In the
library itself Rust's names for them are private, and a release build has none.
"""
import argparse
import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include/umbo"
LAYOUT = ROOT / "tests/abi/layout.txt"
CONSTANTS = ROOT / "tests/abi/constants.txt"
SYMBOLS = ROOT / "tests/abi/symbols.txt"
EXPERIMENTAL = ROOT / "tests/abi/experimental.txt"
DUMP = ROOT / "tests/abi/libumbo.abi"
VERSIONS = ROOT / "cmake/umbo.map"
# Without what differs between machines and compilers; type ids are hashes of names, so that a change moves few lines.
ABIDW = ["abidw", "--no-architecture", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
         "--no-parameter-names", "--no-write-default-sizes", "--type-id-style", "hash"]


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


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def promised():
    """The text of all headers, and what gpu.h has of it, which is not promised."""
    return without_comments(read("all.h", set())), without_comments((HEADERS / "gpu.h").read_text())


def write_symbols(text, gpu):
    for path, names in [(SYMBOLS, functions(text) - functions(gpu)), (EXPERIMENTAL, functions(gpu))]:
        path.write_text("\n".join(sorted(names)) + "\n")


def write_layout(text, gpu):
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


def constants(text):
    """Name and value of each constant and of each macro with the defaults of a struct."""
    text = text.replace("\\\n", " ")
    value = r"(-?\d+)(?: << (\d+))?"
    for line in text.splitlines():
        line = " ".join(line.split())
        number = re.fullmatch(rf"#define (UMBO_\w+) \({value}\)|(\w+) = {value},?", line)
        defaults = re.fullmatch(r"#define (UMBO_\w+_INIT|umbo_\w+_defaults) (.+)", line)
        if number:
            name, base, shift = number.groups()[:3] if number.group(1) else number.groups()[3:]
            yield name, str(int(base) << int(shift or 0))
        elif defaults:
            yield defaults.groups()
        elif re.match(r"UMBO_\w+ = ", line):
            raise SystemExit(f"bless_abi: the value of a constant cannot be read: {line}")


def constants_text(text, gpu):
    """The contents of constants.txt. Constants of gpu.h are not promised, and those of all.h that it has are left out."""
    experimental = dict(constants(gpu))
    promised = {name: value for name, value in constants(text) if name not in experimental}
    return "".join(f"{name} {value}\n" for name, value in sorted(promised.items()))


def compare_constants():
    """Whether constants.txt is what the headers say."""
    committed, found = CONSTANTS.read_text().splitlines(), constants_text(*promised()).splitlines()
    for line in difflib.unified_diff(committed, found, "tests/abi/constants.txt", "include/umbo/*.h", lineterm="", n=0):
        print(line)
    if committed != found:
        print("A constant that changes its value breaks programs that were compiled before. If the change is meant:\n"
              "scripts/bless_abi.py, and see \"When the C API changes\" in CONTRIBUTING.md.")
    return 0 if committed == found else 1


def dump(library, output):
    """Writes what abidw sees in a library."""
    subprocess.run([*ABIDW, "--out-file", output, library], check=True)


def dump_of_headers(text, gpu, folder):
    """The dump of a library of the promised functions, whose bodies are empty."""
    experimental = functions(gpu)
    bodies = []
    for declaration in re.findall(r"UMBO_API ([^;{}]*\)) *;", text):
        name = re.search(r"\b(umbo_\w+)\(", declaration).group(1)
        if name not in experimental:
            bodies.append(f"{' '.join(declaration.split())} {{ __builtin_trap(); }}\n")
    (folder / "empty.c").write_text("#include <umbo/all.h>\n" + "".join(bodies))
    version = re.search(r"^UMBO_([0-9.]+) \{", VERSIONS.read_text(), flags=re.M).group(1)
    library, output = folder / "empty.so", folder / "headers.abi"
    subprocess.run(["cc", "-std=c99", "-g", "-fPIC", "-shared", f"-I{ROOT / 'include'}", "empty.c", "-o", library,
                    f"-Wl,--version-script={VERSIONS},-soname,libumbo.so.{version}"], check=True, cwd=folder)
    dump(library, output)
    return output


def dump_of_library(library, gpu, folder):
    """The dump of a library's symbols and their versions. Of what is experimental it has none."""
    stripped, output = folder / "stripped.so", folder / "library.abi"
    subprocess.run(["objcopy", "--strip-debug", library, stripped], check=True)
    dump(stripped, output)
    pattern = "|".join(functions(gpu))
    lines = output.read_text().splitlines(keepends=True)
    output.write_text("".join(line for line in lines if not re.search(f"name='({pattern})'", line)))
    return output


def compare(library, folder):
    """Whether the committed dump is that of the headers, and its symbols those of the library."""
    if not shutil.which("abidw") or not shutil.which("abidiff"):
        print("SKIPPED: abidw and abidiff of abigail-tools were not found")
        return 77
    text, gpu = promised()
    same = True
    for name, found in [("include/umbo/*.h", dump_of_headers(text, gpu, folder)),
                        (library, dump_of_library(library, gpu, folder))]:
        result = subprocess.run(["abidiff", DUMP, found], capture_output=True, text=True)
        if result.returncode != 0:
            same = False
            print(f"tests/abi/libumbo.abi is not the ABI of {name}:\n{result.stdout}{result.stderr}")
    if not same:
        print("If the change is meant: scripts/bless_abi.py, and see \"When the C API changes\" in CONTRIBUTING.md.")
    return 0 if same else 1


def bless(folder):
    text, gpu = promised()
    write_symbols(text, gpu)
    write_layout(text, gpu)
    CONSTANTS.write_text(constants_text(text, gpu))
    if shutil.which("abidw"):
        shutil.copyfile(dump_of_headers(text, gpu, folder), DUMP)
    else:
        print("bless_abi: there is no abidw (abigail-tools), so tests/abi/libumbo.abi stays as it is")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", metavar="LIBRARY", type=pathlib.Path, help="write nothing")
    parser.add_argument("--constants", action="store_true", help="compare the constants; write nothing")
    arguments = parser.parse_args()
    if arguments.constants:
        sys.exit(compare_constants())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sys.exit(compare(arguments.compare.resolve(), folder) if arguments.compare else bless(folder))


main()
