"""Finds a Python that has what a test needs: interpreter.py TEST PACKAGE[>=VERSION]... -- PROGRAM [ARGUMENT]...

Runs the program with the first of these that has the packages: python3, that of `scripts/setup.sh everything`, that of
make bench-peers, the system's. Where none has, the test is skipped."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = [sys.executable, ROOT / "build/python/bin/python", ROOT / "build/peers/venv/bin/python", "/usr/bin/python3"]
ASKS = """
import importlib.metadata, sys
for package in sys.argv[1:]:
    name, _, least = package.partition(">=")
    numbers = [[int(part) for part in each.split(".")[:2]] for each in (importlib.metadata.version(name), least) if each]
    sys.exit("too old") if numbers[0] < numbers[-1] else None
"""


def main():
    middle = sys.argv.index("--")
    test, packages, program = sys.argv[1], sys.argv[2:middle], sys.argv[middle + 1:]
    for python in PLACES:
        if os.path.exists(python) and subprocess.run([python, "-c", ASKS, *packages], capture_output=True).returncode == 0:
            os.execv(python, [str(python), *program])
    reason = f"no Python here has {', '.join(packages)}"
    sys.exit(subprocess.run([ROOT / "scripts/skip.sh", test, reason]).returncode)


main()
