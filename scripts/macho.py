#!/usr/bin/env python3
"""Prints what a dynamic library of macOS says of itself: its install name, the libraries that it needs, and the symbols that it exports.

  scripts/macho.py LIBRARY
"""
import struct
import sys

LITTLE_64 = 0xFEEDFACF
SYMTAB, DYSYMTAB, LOAD_DYLIB, ID_DYLIB = 0x2, 0xB, 0xC, 0xD


def main():
    data = open(sys.argv[1], "rb").read()
    magic, processor, _, kind, count, _, _, _ = struct.unpack_from("<8I", data)
    if magic != LITTLE_64 or kind != 6:
        sys.exit(f"{sys.argv[1]} is no dynamic library of macOS")
    print("processor", {0x0100000C: "arm64", 0x01000007: "x86_64"}.get(processor, hex(processor)))
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        if command in (LOAD_DYLIB, ID_DYLIB):
            start = at + struct.unpack_from("<I", data, at + 8)[0]
            name = data[start : at + size].split(b"\0")[0].decode()
            print("install name" if command == ID_DYLIB else "needs", name)
        elif command == SYMTAB:
            symbols, _, strings, _ = struct.unpack_from("<4I", data, at + 8)
        elif command == DYSYMTAB:
            first, number = struct.unpack_from("<2I", data, at + 16)
        at += size
    for at in range(symbols + 16 * first, symbols + 16 * (first + number), 16):
        start = strings + struct.unpack_from("<I", data, at)[0]
        print("exports", data[start : data.index(b"\0", start)].decode())


main()
