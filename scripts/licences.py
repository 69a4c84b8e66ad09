#!/usr/bin/env python3
"""Collects the licences of all crates whose code is in what is installed: THIRD-PARTY-LICENSES.txt.

    scripts/licences.py [--check]

Crates and texts come from cargo. A crate that offers a choice is used under one licence, the first in PREFERRED. --check
writes nothing and fails where the file would change.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "THIRD-PARTY-LICENSES.txt"
PREFERRED = ["MIT", "Apache-2.0", "Zlib", "ISC", "0BSD"]
# Where it can be installed.
SYSTEMS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-gnu"]
# What the names of files with a licence's text have in them.
MARKS = {"MIT": "MIT", "Apache-2.0": "APACHE"}
HEAD = """\
What Umbo's libraries and its tool contain of others, and the licences under which it is used.
Umbo's own are in LICENSE-MIT and LICENSE-APACHE. Rust's standard library, which is a part of each program of Rust,
is used under Apache-2.0, whose text is below. Written by scripts/licences.py.
"""


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked():
    """Names and versions of the crates in what is installed."""
    lines = cargo(
        *"tree --edges normal,no-proc-macro --package umbo --package umbo-tool --prefix none".split(),
        *[word for system in SYSTEMS for word in ("--target", system)],
        *["--format", "{p}"],
    ).splitlines()
    return {tuple(line.split()[:2]) for line in lines if line and not line.startswith("umbo")}


def texts(package, licence):
    """The texts of a crate's licence, or of all that it comes with where no file is named after it."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if re.match(r"(?i)licen[cs]e|copying|unlicense", file.name))
    named = [file for file in files if MARKS.get(licence, licence).upper() in file.name.upper()]
    return [file.read_text().strip() for file in named or files if file.is_file()]


def collected():
    packages = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    by_name = {(package["name"], "v" + package["version"]): package for package in packages}
    crates_of, without = {}, []
    for crate in sorted(linked()):
        package = by_name[crate]
        offered = re.split(r" OR |/", package["license"])
        licence = next((name for name in PREFERRED if name in offered), None)
        if licence is None:
            sys.exit(f"licences: {crate[0]} is under {package['license']}; add what it is used under to PREFERRED")
        name = f"{crate[0]} {crate[1][1:]} ({licence})"
        found = texts(package, licence)
        if not found:
            without.append(f"{name}, {', '.join(package['authors']) or package['repository']}")
        for text in found:
            crates_of.setdefault(re.sub(r"\s+", " ", text), (text, []))[1].append(name)
    line = "\n" + "=" * 80 + "\n"
    parts = [HEAD]
    if without:
        parts.append("Without a text of their own in the package, under the licence of that name:\n\n" + "\n".join(without) + "\n")
    parts += ["\n".join(crates) + "\n\n" + text + "\n" for text, crates in crates_of.values()]
    return line.join(parts)


def main():
    text = collected()
    if "--check" not in sys.argv:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit("licences: THIRD-PARTY-LICENSES.txt does not fit Cargo.lock; scripts/licences.py writes it")


if __name__ == "__main__":
    main()
