"""docs/internals/benchmarks.md: a table of what was measured for each machine, side by side, and what that means."""

import datetime
import os
import pathlib
import platform
import re
import sys
import tempfile

from participants import ELEMENTS, SAMPLES


def number(value, form=None):
    return format(value, form or (",.2f" if value < 100 else ",.0f"))


def spread(values, form=None):
    """A median with its quartiles."""
    if values is None:
        return "not measured"
    low, high = number(values.low, form), number(values.high, form)
    return f"{number(values.middle, form)} ({low} to {high})"


def table(rows):
    lines = [
        "| workload | peer | unit | Umbo | peer's | Umbo is faster by | probe | percent of probe |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [row["name"], row["peer"], row["unit"], spread(row["ours"]), spread(row["theirs"])]
        probe = "not measured" if row["probe"] is None else number(row["probe"].middle)
        cells += [spread(row["ratio"], ".1f"), probe, spread(row["percent"], ",.0f")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def with_machine(text, kind, machine, table):
    """The document with this table in place of that of the same machine, or before the others of its kind."""
    section = f"<!-- {kind}: {machine} -->\n{table}\n<!-- {kind}: end -->\n"
    ours = re.compile(rf"<!-- {kind}: {re.escape(machine)} -->\n.*?<!-- {kind}: end -->\n", re.DOTALL)
    if ours.search(text):
        return ours.sub(lambda _: section, text)
    mark = f"<!-- {kind}: tables -->\n"
    if mark not in text:
        sys.exit(f"{kind}: the document has no line {mark.strip()}")
    return text.replace(mark, mark + section + "\n")


def ready(path, kind=None, machine=""):
    """The text of a document that will be written, or nothing if it is not there yet. The program ends here, before it
    has measured, if the document cannot be written, or has no place for the table of this kind and machine."""
    path = pathlib.Path(path)
    try:
        text = path.read_text() if path.exists() else ""
        if path.exists():
            with open(path, "r+"):
                pass
        else:
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        sys.exit(f"{path} cannot be written: {error.strerror}; nothing was measured. Give --output a file that can")
    if kind is not None:
        with_machine(text, kind, machine, "")
    return text


def heading():
    """Of the section with this machine's table."""
    return f"On {processor()}, {os.cpu_count()} processors"


def behind(rows):
    """Where a peer is faster, in words."""
    slower = [row for row in rows if row["ratio"] is not None and row["ratio"].middle < 1.0]
    named = [f"{row['name']}, {row['peer']} ({number(row['ratio'].middle)})" for row in slower]
    return "Umbo is behind in: " + "; ".join(named) + "." if named else "Umbo is behind in none of them."


def section(rows, versions, problems, busy, rounds):
    """What was measured on this machine."""
    versions = [*versions, f"Python {platform.python_version()}"]
    shares = " and ".join(f"{100 * share:.0f} %" for share in busy)
    lines = [
        f"- Date: {datetime.date.today().isoformat()}, {platform.system()} {platform.release().partition('-')[0]}, {rounds} rounds",
        f"- Versions: {'; '.join(versions)}",
        f"- Arrays of reduce and Adam: {ELEMENTS >> 20} Mi elements, {ELEMENTS * 4 >> 20} MiB each",
        f"- Other programs used {shares} of the processors' time right before and after",
        "",
        table(rows),
        "",
        behind(rows),
    ]
    if problems:
        lines += ["", "What could not be had or measured:", "", *(f"- {problem}" for problem in problems)]
    return "\n".join(lines)


def sections_of(text):
    """The sections of a document, in their order, by their headings; what is before them by None."""
    first, *others = text.split("\n## ")
    parts = (other.partition("\n") for other in others)
    return {None: first.strip("\n")} | {title: body.strip("\n") for title, _, body in parts}


def with_section(before, own):
    """The document `before` with this machine's section, behind those of other machines or in the place of an older
    one of its own."""
    sections = sections_of(before)
    tables = {title: body for title, body in sections.items() if title and title.startswith("On ")}
    tables[heading()] = own
    others = {title: body for title, body in sections.items() if title and title not in tables}
    others.pop(MEANING_HEADING, None)
    parts = [INTRODUCTION]
    for title, body in [*tables.items(), (MEANING_HEADING, MEANING), *others.items()]:
        parts.append(f"## {title}\n\n{body}")
    return "\n\n".join(parts) + "\n"


def committed(text):
    """The percents of probes in this machine's table, by workload and peer; none if it has no table."""
    lines = sections_of(text).get(heading(), "").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    percents = {}
    for cells in rows:
        percent = cells[-1].partition(" ")[0].replace(",", "")
        if percent.isdigit():
            percents[cells[0], cells[1]] = int(percent)
    return percents


INTRODUCTION = """\
# Benchmarks compared with peers

Written by `make bench-peers`, which keeps the tables of other machines and writes none while other programs use the
processors. Umbo and each peer are processes of their own and take turns; of all rounds medians are shown, and in
brackets quartiles. Ratios are taken within rounds. `make bench-check` measures again, and fails where a percent of a
probe has fallen by more than a tenth of what stands here for the machine.
A table whose versions name no OpenBLAS was made without a look at its kernels: they may be those of an older
processor, for all programs of the table alike.
A cache of 256 MiB or more holds arrays of 16 Mi elements: there `PEER_ELEMENTS=134217728` measures memory.

<!-- measured: make bench-peers; crates src -->"""

MEANING_HEADING = "What is measured"

MEANING = f"""\
- Input: a pass over {SAMPLES} rows of 784 float32, whole-array shuffle or none, batches
  of 1024, over 2 replicas on logical CPUs; the consumer takes the elements and does
  nothing with them. In order, Umbo's batches are views of the array, so that its figure
  is one of handing over, not of copying. The probe copies the same rows in an order like
  that of the workload, on one thread. TensorFlow's part is
  `from_tensor_slices`, `shuffle`, `batch` and `experimental_distribute_dataset`.
- Empty run: `strategy.run` of a callback that does nothing, in TensorFlow's case within a
  `tf.function`. The probe is a hand-off between two threads that spin, there and back.
- Reduce: one tensor of {ELEMENTS} float32 for each replica to their sum. The probe reads and
  writes the same memory. TensorFlow's `strategy.reduce` always makes a new tensor, and the
  pages of a new tensor are new to the process; Umbo does it both ways. PyTorch adds one
  gradient after the other, to a new tensor or to one used again. OpenMP is one loop in C
  over all four, with ordinary stores. Open MPI has a process for each replica: `Reduce`
  leaves the sum with one of them, as Umbo's does with the parameter device, `Allreduce`
  with both.
- Reduce and Adam or AdamW: {ELEMENTS} float32 variables, updated from the sum of the gradients
  of 4 replicas. The probe reads and writes the same memory. TensorFlow's part is Keras'
  optimizer, whose `apply_gradients` each replica calls in a `tf.function`. PyTorch adds the
  gradients up, one after the other to a tensor used again or with Python's `sum()` to new
  ones, and calls its fused AdamW; DeepSpeed's AdamW for processors gets the sum in place
  from PyTorch. OpenMP is one loop in C that sums and updates.
- Training: passes over {SAMPLES} made-up pictures of 784 float32, shuffled, with a perceptron of
  784, 500 and 10, 2 replicas. Umbo's side is a C program whose callback calls OpenBLAS with one
  thread. TensorFlow's is a loop over the distributed dataset within a `tf.function`, with
  Keras' optimizer, once with as many threads for an operation as it chooses, and once with one;
  its dataset shuffles row numbers and gathers batches by them, which is faster than rows. The
  probe is the C program's forward and backward passes alone, on two threads that neither read
  batches nor update anything.

All but input and the empty run call Umbo's C functions. Before it is timed, every sum and every
first step of an optimizer is compared with one worked out in double precision, and training must
bring the loss down.

JAX and gloo are not among the peers of this program, and none of this runs on an accelerator."""
