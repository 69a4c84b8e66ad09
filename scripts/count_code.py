#!/usr/bin/env python3
"""Counts lines of Rust code: without comments, blank lines and tests inside of the files.

    scripts/count_code.py [FOLDER...]      (default: src, and each folder in it)

A line counts if something is left of it once comments are gone. What `#[cfg(test)]` stands above is
left out up to its closing brace or semicolon.
"""
import pathlib
import re
import sys

# Strings and characters first, so that what looks like a comment or a brace in them is none.
TOKEN = re.compile(
    r'''(?P<text>b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?c?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])')'''
    r'''|(?P<comment>//[^\n]*|/\*.*?\*/)''',
    re.DOTALL)


def plain(source):
    """The source with comments gone, and strings of as many lines in which nothing stands but x."""
    def instead(match):
        if match["comment"]:
            return "\n" * match[0].count("\n")
        return re.sub(r"[^\n]", "x", match[0])
    return TOKEN.sub(instead, source)


def without_tests(source):
    """The source without the items that are compiled for tests alone."""
    while (start := source.find("#[cfg(test)]")) >= 0:
        depth, end = 0, start
        for end in range(start + len("#[cfg(test)]"), len(source)):
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            if depth == 0 and source[end] in "};":
                break
        source = source[:start] + source[end + 1:]
    return source


def lines_of(path):
    source = without_tests(plain(path.read_text(encoding="utf-8")))
    return sum(1 for line in source.splitlines() if line.strip())


def count(folder):
    files = sorted(pathlib.Path(folder).rglob("*.rs"))
    return sum(map(lines_of, files)), len(files)


def main():
    folders = sys.argv[1:]
    if not folders:
        top = pathlib.Path(__file__).resolve().parent.parent / "src"
        folders = [*sorted(path for path in top.iterdir() if path.is_dir()), top]
    for folder in folders:
        lines, files = count(folder)
        print(f"{lines:7} lines of code in {files:4} files  {pathlib.Path(folder).name}")


if __name__ == "__main__":
    main()
