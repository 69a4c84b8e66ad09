#!/usr/bin/env python3
"""Demands that every link within doxygen's pages leads to a file and a place in it: check.py HTML_FOLDER"""
import collections
import html
import pathlib
import re
import sys

LINK = re.compile(r'(?:href|src|data)="([^"]+)"')
PLACE = re.compile(r'(?:id|name)="([^"]+)"')
# Doxygen's own: classes within classes have no such place.
DOXYGENS = "#nested-classes"


def main(folder):
    texts = {path.name: path.read_text(errors="replace") for path in folder.glob("*.html")}
    places = {name: set(PLACE.findall(text)) for name, text in texts.items()}
    dead = collections.Counter()
    count = 0
    for name, text in texts.items():
        for link in map(html.unescape, LINK.findall(text)):
            if re.match(r"\w+:", link) or link == DOXYGENS:
                continue
            count += 1
            file, _, place = link.partition("#")
            is_there = not file or (folder / file).exists()
            if not is_there or (place and place not in places.get(file or name, {place})):
                dead[f"{name}: {link}"] += 1
    for link in dead:
        print(link)
    print(f"{count} links, {len(dead)} of them dead")
    return 1 if dead or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
