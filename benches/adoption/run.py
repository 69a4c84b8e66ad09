#!/usr/bin/env python3
"""Counts the lines that Umbo takes in the programs of c_examples/loops, and measures these before and after; writes the tables of
docs/adoption.md, and the one of README.md.

    benches/adoption/run.py [--prefix FOLDER | --include FOLDER --library FILE] [--check] [--only NAME|c|libtorch] [--rounds N]
                            [--output FILE] [--busy] [--small]

Each program is compiled as it is and with its patch. Both have to learn the same, and with replicas_in_sync the weights have to
be bit-identical for 1 to 8 replicas; --check does that alone, and compares the lines with docs/adoption.md. Then both run in
turns: a ratio is taken within a round. A machine on which other programs run is refused, unless --busy is given: then the
table of this machine is not written. --small is one short run of each, on any machine.
--only c and --only libtorch are the programs of one table. Without LibTorch those of its table are left out, and the table
stays as it is.
"""

import argparse
import datetime
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))

import libtorch
from common import HERE, LOOPS, ROOT, changed_lines, done, fail, patched
from document import processor, ready, with_machine
from participants import choose_kernels
from quiet import MOST, busy_share
from spread import Spread, medians_of, orders

DOCUMENT = ROOT / "docs" / "adoption.md"
# _Thread_local, OpenMP and POSIX's clock.
FLAGS = "-std=gnu11 -O3 -fopenmp -Wall -Wextra -Werror"
# Sums of float32 in another order: relative differences of 1e-7 in each step, which a training makes larger.
ROUNDING = 1e-4
# Threads that race change vectors at once, replicas after a batch. Of what is learned, the loss below that of vectors of
# zeros, seeds of the draws change one per cent, and two or three threads that race another. Rounding decides between entries of
# the table of sigmoids, so that replicas differ by a fifth of that at most.
BATCHES = 0.05
LOSS_OF_ZEROS = 0.693147


class Program:
    """A loop in C, with the numbers of steps or epochs and the sizes for a check in a second and for measurements."""

    extension = "c"

    def __init__(self, name, what, shape, check, measured, serial, learned=False):
        # What learns, by which rule; and the same for README.md, with what its threads do.
        self.name, self.what, self.shape = name, what, shape
        self.check, self.measured = check, measured
        # The part of the program that one thread does, in words; whether only the loss that is learned agrees.
        self.serial, self.learned = serial, learned

    def title(self, setting):
        return f"{self.name}, size {setting[1]}"

    def same(self, before, after):
        if not self.learned:
            return abs(after - before) <= ROUNDING * abs(before)
        return abs(after - before) <= BATCHES * (LOSS_OF_ZEROS - before)


PROGRAMS = [
    Program("openmp", "a linear model, SGD", "linear model, OpenMP over rows", (2, 128), [(3000, 128), (3000, 2000)], "the update"),
    Program("gpt", "a GPT, AdamW", "GPT, OpenMP in its layers", (20, 64), [(150, 64), (40, 256)], "half of the layers, the update"),
    Program("network", "a perceptron, momentum", "perceptron, copied to threads", (3, 128), [(12, 128), (4, 1024)], "the sum, the update"),
    Program("skipgram", "word vectors, SGD", "word vectors, racing threads", (1, 16), [(12, 32), (6, 128)], "nothing", learned=True),
]
# The tables of docs/adoption.md, by what --only and the marks in the page call them.
TABLES = {"c": ("adoption", PROGRAMS), "libtorch": ("libtorch", libtorch.PROGRAMS)}
ALL = [*PROGRAMS, *libtorch.PROGRAMS]


class Compiled:
    """A program before and after its patch, and after it with the same number of parts for any number of replicas."""

    def __init__(self, program, folder, compiler, linked):
        self.program, self.folder = program, folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        source, patch = LOOPS / f"{program.name}.c", LOOPS / f"{program.name}.diff"
        shutil.copy(source, folder / "before.c")
        after = patched(source, patch, folder)
        (folder / "after.c").write_text(after)
        in_sync = after.replace(".replicas = threads", ".replicas = threads, .replicas_in_sync = 8")
        if in_sync == after:
            fail(f"{patch.name} has no .replicas = threads, which this program adds replicas_in_sync to")
        (folder / "in_sync.c").write_text(in_sync)
        done([*compiler, "-O2", "-D_DEFAULT_SOURCE", HERE / "peak.c", "-o", "peak"], cwd=folder)
        for when in ("before", "after", "in_sync"):
            with_library = [] if when == "before" else linked
            done([*compiler, *FLAGS.split(), f"{when}.c", "-o", when, *with_library, "-lm"], cwd=folder)

    def run(self, when, threads, setting, weights="weights"):
        """The loss, the rate and the kilobytes of a run."""
        amount, size = setting
        environment = dict(os.environ)
        if when == "in_sync":
            # More replicas than processors: a thread of OpenMP that has nothing to do leaves them to the others.
            environment["OMP_WAIT_POLICY"] = "passive"
        # Replicas that are more than the processors are asked for here.
        environment["UMBO_LOG"] = "error"
        command = [self.folder / "peak", self.folder / when, amount, threads, size, self.folder / weights]
        printed = done(command, env=environment)
        found = re.fullmatch(r"loss ([0-9.]+), ([0-9]+) \w+/s\npeak ([0-9]+)\n", printed)
        if found is None:
            fail(f"{self.program.name}, {when}, printed: {printed}")
        return float(found[1]), float(found[2]), int(found[3])

    def learns_the_same(self, counts=(1, 2, 3)):
        before, first = self.run("before", 2, self.program.check)[0], None
        for replicas in counts:
            after = self.run("after", replicas, self.program.check)[0]
            print(f"{self.program.name}: loss {before:.6f}, under Umbo on {replicas} {after:.6f}", file=sys.stderr)
            if not self.program.same(before, after):
                fail(f"{self.program.name}: another loss under Umbo on {replicas}: {after}, without {before}")
            first = first or after
            if abs(after - first) > (BATCHES / 5 if self.program.learned else ROUNDING) * first:
                fail(f"{self.program.name}: the loss depends on the number of replicas: {first} on {counts[0]}, {after} on {replicas}")

    def fingerprint(self):
        """The SHA-256 of the weights, if it is that of 1 to 8 replicas."""
        found = set()
        for replicas in range(1, 9):
            self.run("in_sync", replicas, self.program.check, "weights_in_sync")
            found.add(hashlib.sha256((self.folder / "weights_in_sync").read_bytes()).hexdigest())
        print(f"{self.program.name}: 1 to 8 replicas have {len(found)} SHA of their weights", file=sys.stderr)
        return found.pop() if len(found) == 1 else None


def measure(compiled, setting, rounds):
    """Rates of both in each round, in an order that changes, and the most memory of each."""
    rates, memory = {"before": [], "after": []}, {"before": 0, "after": 0}
    for order in orders(rates, rounds):
        for when in order:
            _, rate, kilobytes = compiled.run(when, 2, setting)
            rates[when].append(rate)
            memory[when] = max(memory[when], kilobytes)
    return rates, memory


def short(rate):
    for factor, unit in ((1e6, " M"), (1e3, " k")):
        if rate >= factor:
            return f"{rate / factor:.3g}{unit}"
    return f"{rate:.3g}"


def counted(program):
    """The row of a program in the table of lines."""
    patch = (LOOPS / f"{program.name}.diff").read_text()
    file = f"{program.name}.{program.extension}"
    lines = len((LOOPS / file).read_text().splitlines())
    added, removed, pairs = changed_lines(patch)
    link = f"[`{file}`](../c_examples/loops/{file})"
    patch_link = f"[`{program.name}.diff`](../c_examples/loops/{program.name}.diff)"
    return f"| {link} | {program.what} | {lines} | {patch_link} | {added} | {removed} | {added + removed - pairs} |"


LINES_HEAD = """\
| program | what learns | lines | patch | added | removed | touched |
|---|---|---:|---|---:|---:|---:|"""


def lines_table():
    return "\n".join([LINES_HEAD, *(counted(program) for program in ALL)])


README_HEAD = """\
| program | lines | changed | ratio |
|---|---:|---:|---:|"""


def readme_table(document):
    """The table of README.md: of each program that was measured its lines, those that the patch touches, and the ratios of the first machine of
    docs/adoption.md with their sizes, the largest ratio first."""
    rows = []
    for kind, programs in TABLES.values():
        first = document.split(f"<!-- {kind}: tables -->")[1].split(f"<!-- {kind}: end -->")[0]
        for program in programs:
            cells = [cell.strip() for cell in counted(program).split("|")]
            ratios = re.findall(rf"^\| {program.name}(?:, size (\d+))?[^|]*\|(?:[^|]*\|){{3}} ([0-9.]+) ", first, re.MULTILINE)
            shown = ", ".join(f"{ratio} ({size})" if size else ratio for size, ratio in ratios)
            if ratios:
                row = f"| {program.shape} | {cells[3]} | {cells[-2]} | {shown} |"
                rows.append((max(float(ratio) for _, ratio in ratios), row))
    rows.sort(key=lambda one: -one[0])
    return "\n".join([README_HEAD, *(row for _, row in rows)])


def write_readme(document):
    path = ROOT / "README.md"
    text = path.read_text()
    start = text.index(README_HEAD)
    path.write_text(text[:start] + readme_table(document) + text[text.index("\n\n", start) :])


def row(compiled, setting, rounds, identical):
    program = compiled.program
    rates, memory = measure(compiled, setting, rounds)
    ratio = Spread([ours / theirs for ours, theirs in zip(rates["after"], rates["before"])])
    own, ours = (short(Spread(rates[when]).middle) for when in ("before", "after"))
    cells = [
        program.title(setting),
        program.serial,
        own,
        ours,
        f"{ratio.middle:.2f} ({ratio.low:.2f} to {ratio.high:.2f})",
        f"{memory['before'] / 1024:.0f}",
        f"{memory['after'] / 1024:.0f}",
        "yes" if identical else "**no**",
    ]
    print(" | ".join(cells), file=sys.stderr)
    return "| " + " | ".join(cells) + " |"


HEAD = """\
| program | serial in it | rows/s of its 2 threads | of 2 replicas | ratio | MB before | after | one SHA, 1 to 8 replicas |
|---|---|---:|---:|---:|---:|---:|---|"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=pathlib.Path, default=ROOT / "build" / "prefix")
    parser.add_argument("--include", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--compiler", default="cc", help="of C")
    parser.add_argument("--cxx-compiler", default="c++")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "adoption")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", choices=[*TABLES, *(program.name for program in ALL)])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--small", action="store_true")
    return parser.parse_args()


def linked_with(asked):
    """What a program that uses the library is compiled and linked with."""
    library = asked.library or next(iter(asked.prefix.glob("lib*/libumbo.so")), None)
    if library is None:
        fail(f"{asked.prefix} has no libumbo.so; make install makes one")
    include, library = (asked.include or asked.prefix / "include").resolve(), library.absolute()
    return [f"-I{include}", library, f"-Wl,-rpath,{library.parent}"]


def write(path, kind, machine, text):
    path.write_text(with_machine(path.read_text(), kind, machine, text))


def main():
    asked = arguments()
    machine = f"{processor()}, {os.cpu_count()}"
    if asked.output is not None:
        ready(asked.output, "adoption", machine)
    if asked.check:
        compare_documents()
    linked, busy = linked_with(asked), 0.0 if asked.check or asked.small else busy_share()
    if busy > MOST and not asked.busy:
        fail(
            f"other programs use {100 * busy:.0f} % of the processors' time; what is measured now says little. Wait, or "
            "give --busy, and the table of this machine is not written"
        )
    blas = blas_of(asked)
    different = []
    for name, (kind, programs) in TABLES.items():
        chosen = [program for program in programs if asked.only in (None, name, program.name)]
        if chosen and name == "libtorch" and libtorch.version() is None:
            print("adoption: LibTorch was not found; its table stays as it is (make test-engines installs it)", file=sys.stderr)
            chosen = []
        rows, load = [], os.getloadavg()[0]
        for program in chosen:
            compiled = compile_program(asked, program, linked)
            compiled.learns_the_same()
            identical = compiled.fingerprint() is not None
            if not identical:
                different.append(program.name)
            if not asked.check:
                settings = [program.check] if asked.small else program.measured
                rows += [row(compiled, setting, asked.rounds, identical) for setting in settings]
        if rows:
            measured = "\n".join([said_of(asked, name, load, blas), "", HEAD, *rows])
            print(measured)
            if asked.output is not None and not (asked.busy or asked.small or different or len(chosen) < len(programs)):
                write(asked.output, kind, machine, measured)
    if not asked.check:
        print(lines_table())
        if asked.output is not None:
            write(asked.output, "lines", "all machines", lines_table())
            if asked.output.resolve() == DOCUMENT:
                write_readme(DOCUMENT.read_text())
    if different:
        fail(f"the weights of 1 to 8 replicas in sync differ: {', '.join(different)}")


def compile_program(asked, program, linked):
    folder = asked.build.resolve() / program.name
    if program in libtorch.PROGRAMS:
        # LibTorch's headers are large, and a check compiles longer than it runs.
        optimisation = "-O0" if asked.check or asked.small else "-O2"
        return libtorch.CompiledTorch(program, folder, shlex.split(asked.cxx_compiler), linked, optimisation)
    return Compiled(program, folder, shlex.split(asked.compiler), linked)


def blas_of(asked):
    """What LibTorch multiplies matrices with, in words, if the installed tool can say it."""
    if asked.library or not (asked.prefix / "bin" / "umbo").exists():
        return "The kernels of its BLAS were not looked at"
    return choose_kernels(asked.prefix)


def said_of(asked, name, load, blas):
    """What stands above a table: the machine and the day, and below them what computes."""
    machine = f"{processor()}, {os.cpu_count()} processors, {datetime.date.today().isoformat()}"
    engine = f"\nWith LibTorch {libtorch.version()}. {blas}." if name == "libtorch" else ""
    return f"{machine}; {medians_of(asked.rounds)}; load average before: {load:.1f}.{engine}"


def compare_documents():
    """Fails if docs/adoption.md has other numbers of lines, README.md other numbers than that, or one of
    README.md and docs/loop.md other patches."""
    document = DOCUMENT.read_text()
    if lines_table() not in document:
        fail("docs/adoption.md has other numbers of lines; make adoption writes them")
    if readme_table(document) not in (ROOT / "README.md").read_text():
        fail("README.md has other numbers than docs/adoption.md; make adoption writes them")
    shown = (ROOT / "README.md").read_text().split("<!-- part of: c_examples/loops/mnist.diff -->\n```diff\n")[1].split("```")[0]
    if not set(shown.splitlines()) <= set((LOOPS / "mnist.diff").read_text().splitlines()):
        fail("README.md shows other lines than mnist.diff has")
    loop = (ROOT / "docs" / "loop.md").read_text()
    if (LOOPS / "openmp.diff").read_text() not in loop:
        fail("docs/loop.md has another openmp.diff than c_examples/loops")
    kernels = loop.split("<!-- file: kernels.inc -->\n```c\n")[1].split("```")[0]
    after = "\n".join(line[1:] for line in (LOOPS / "gpt.diff").read_text().splitlines() if line[:1] != "-")
    if kernels not in after:
        fail("docs/loop.md has a function with kernels other than gpt.diff")


if __name__ == "__main__":
    main()
