"""Writes the four IDX files of this folder from scikit-learn's digits.csv.gz.

    python3 make_idx.py digits.csv.gz .

The first 1,437 rows become the training set, the last 360 the test set, in the order of the table.
"""

import gzip
import struct
import sys
from pathlib import Path

TRAINING_ROWS = 1437
UNSIGNED_BYTE = 0x08


def write_idx(path, shape, values):
    header = struct.pack(f">BBBB{len(shape)}I", 0, 0, UNSIGNED_BYTE, len(shape), *shape)
    path.write_bytes(header + bytes(values))


def main(source, folder):
    with gzip.open(source, "rt", encoding="ascii") as table:
        rows = [[int(float(cell)) for cell in line.split(",")] for line in table]
    for name, part in (("train", rows[:TRAINING_ROWS]), ("t10k", rows[TRAINING_ROWS:])):
        pixels = [pixel for row in part for pixel in row[:64]]
        write_idx(Path(folder, f"{name}-images-idx3-ubyte"), (len(part), 8, 8), pixels)
        write_idx(Path(folder, f"{name}-labels-idx1-ubyte"), (len(part),), [row[64] for row in part])


main(*sys.argv[1:])
