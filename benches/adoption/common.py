"""What the programs in C and those with LibTorch share: where they are, how a command is run, how lines are counted."""

import pathlib
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOOPS = ROOT / "c_examples" / "loops"


def fail(text):
    sys.exit(f"adoption: {text}")


def done(command, **options):
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if ended.returncode != 0:
        fail(f"{shlex.join(map(str, command))}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def changed_lines(patch):
    """Lines that a patch adds and removes, and how many of both are pairs: a line in place of another."""
    added = removed = pairs = 0
    for run in re.findall(r"(?:^[-+].*\n)+", patch.split("\n@@", 1)[1], re.MULTILINE):
        plus = sum(line.startswith("+") for line in run.splitlines())
        minus = len(run.splitlines()) - plus
        added, removed, pairs = added + plus, removed + minus, pairs + min(plus, minus)
    return added, removed, pairs


def patched(source, patch, folder):
    """The text of a program after its patch, of which a copy in a folder is changed."""
    copy = folder / source.name
    copy.write_text(source.read_text())
    done(["patch", "--fuzz=0", "-i", patch], cwd=folder)
    return copy.read_text()
