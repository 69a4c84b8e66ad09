#!/usr/bin/env python3
"""Counts lines of Rust code: without comments, blank lines and tests inside of the files.

    scripts/count_code.py [FOLDER...]      (default: each crate, and all of them)

A line counts if something is left of it once comments are gone. What `#[cfg(test)]` stands above is
left out up to its closing brace or semicolon, and so is the file of a module that it stands above.
"""
import pathlib
import re
import sys

# Strings and characters first, so that what looks like a comment or a brace in them is none.
TOKEN = re.compile(
    r'''(?P<text>b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?c?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])')'''
    r'''|(?P<comment>//[^\n]*|/\*.*?\*/)''',
    re.DOTALL)

FOR_TESTS = re.compile(r"#\[cfg\((?:test|all\(test\b[^]]*)\)\]")


def plain(source):
    """The source with comments gone, and strings of as many lines in which nothing stands but x."""
    def instead(match):
        if match["comment"]:
            return "\n" * match[0].count("\n")
        return re.sub(r"[^\n]", "x", match[0])
    return TOKEN.sub(instead, source)


def without_tests(source):
    """The source without the items that are compiled for tests alone."""
    while attribute := FOR_TESTS.search(source):
        start, depth, end = attribute.start(), 0, attribute.end()
        for end in range(attribute.end(), len(source)):
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            if depth == 0 and source[end] in "};":
                break
        source = source[:start] + source[end + 1:]
    return source


def lines_of(path):
    source = without_tests(plain(path.read_text(encoding="utf-8")))
    return sum(1 for line in source.splitlines() if line.strip())


def test_modules(path):
    """The files of modules that a file has for tests alone."""
    source = path.read_text(encoding="utf-8")
    found = re.findall(FOR_TESTS.pattern + r"\s*(?:pub(?:\(\w+\))? )?mod (\w+);", source)
    folder = path.parent if path.stem in ("mod", "lib") else path.parent / path.stem
    return {folder / f"{name}.rs" for name in found}


def count(folder):
    files = set(pathlib.Path(folder).rglob("*.rs"))
    files -= {file for path in files for file in test_modules(path)}
    return sum(map(lines_of, files)), len(files)


def main():
    folders = sys.argv[1:]
    if not folders:
        top = pathlib.Path(__file__).resolve().parent.parent
        folders = [*sorted(top.glob("crates/*")), top / "src"]
    counts = [count(folder) for folder in folders]
    for folder, (lines, files) in zip(folders, counts):
        print(f"{lines:7} lines of code in {files:4} files  {pathlib.Path(folder).name}")
    lines, files = map(sum, zip(*counts))
    print(f"{lines:7} lines of code in {files:4} files  together")


if __name__ == "__main__":
    main()
