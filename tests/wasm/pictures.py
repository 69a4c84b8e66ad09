#!/usr/bin/env python3
"""Writes the pictures of c_examples/data/digits as arrays of C, for a program without files.

    tests/wasm/pictures.py >pictures.h
"""

import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "c_examples/data/digits"
PIXELS = 64


def listed(numbers):
    return "{" + ",".join(map(str, numbers)) + "}"


def main():
    print(f"enum {{ PIXELS = {PIXELS} }};")
    for name, count, file in ("training", "TRAINING", "train"), ("other", "OTHERS", "t10k"):
        pictures = (FOLDER / f"{file}-images-idx3-ubyte").read_bytes()[16:]
        labels = (FOLDER / f"{file}-labels-idx1-ubyte").read_bytes()[8:]
        rows = [listed(pictures[at:at + PIXELS]) for at in range(0, len(pictures), PIXELS)]
        print(f"enum {{ {count} = {len(labels)} }};")
        print(f"static const unsigned char {name}_pictures[{count}][PIXELS] = {{", ",\n".join(rows), "};", sep="\n")
        print(f"static const unsigned char {name}_labels[{count}] = {listed(labels)};")


main()
