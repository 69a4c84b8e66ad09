#!/usr/bin/env python3
"""Lets others' tests judge Umbo: run.py [--small] [--include FOLDER] [--library FOLDER] [JUDGE]...

Installs what the judges need into build/judges/venv, runs each of them in a process of its own, and writes what they
say into docs/internals/judges.md. --small: one case of each kind, installs nothing, writes nothing; exit code 77 if a
package is missing. README.md says how a judge is added."""
import argparse
import collections
import importlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV = ROOT / "build/judges/venv"
PYTHON = VENV / "bin/python"
# Where what they say is written, over what is there.
DOCUMENTS = ROOT / os.environ.get("JUDGES_DOCUMENTS", "docs")
TABLE = DOCUMENTS / "internals/judges.md"
BEGIN, END = "<!-- judged: begin -->", "<!-- judged: end -->"

# What the binding needs: modules, and what pip is asked for.
ALWAYS = {"cffi": "cffi", "numpy": "numpy>=2.1"}
# Each judge is a module of this folder; in the order of the table, with the packages that it needs.
JUDGES = {
    "torch_optimizers": {"torch": "torch", "expecttest": "expecttest"},
    "keras_optimizers": {"keras": "keras", "tensorflow": "tensorflow-cpu", "pytest": "pytest"},
    "moving_averages": {"torch": "torch", "keras": "keras", "tensorflow": "tensorflow-cpu"},
    "deepspeed_adam": {"deepspeed": "deepspeed", "torch": "torch", "ninja": "ninja"},
    "bitsandbytes_adam": {"bitsandbytes": "bitsandbytes", "torch": "torch"},
    "optax_aliases": {"optax": "optax", "sklearn": "scikit-learn"},
    "row_changes": {},
    "numpy_dlpack": {"pytest": "pytest", "jax": "jax"},  # and PyTorch, where another judge has installed it
    "safetensors_files": {"safetensors": "safetensors"},
    "mpi_tools": {},
    "factorisation": {"libmf": "libmf"},
    "weighting": {"tensorflow": "tensorflow-cpu", "torch": "torch"},
}
# Judges that need none of these are installed for CI, too.
GIGABYTES = {"torch", "tensorflow", "deepspeed"}


def missing(packages):
    """What pip is to be asked for, so that the private environment has the packages."""
    if not PYTHON.exists():
        return list(packages.values())
    find = "import sys, importlib.util as u; print(*(name for name in sys.argv[1:] if u.find_spec(name) is None))"
    found = subprocess.run([PYTHON, "-c", find, *packages], capture_output=True, text=True, check=True).stdout.split()
    return [packages[name] for name in found]


def install(wanted):
    """Why the private environment cannot have these packages; None if it has them now."""
    if not PYTHON.exists():
        VENV.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    print(f"installing {', '.join(wanted)} into {VENV.relative_to(ROOT)}", flush=True)
    done = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", *wanted], capture_output=True, text=True)
    return None if done.returncode == 0 else f"pip could not install {', '.join(wanted)}: {done.stderr.strip()[-300:]}"


def judged(module, small, begin):
    """Runs the cases of a judge whose names begin so: the row of the table, and the exit code."""
    from frame import NotApplicable
    reasons, remarks, failed, passed = collections.Counter(), [], [], 0
    for case in module.cases(small):
        if not case.name.startswith(begin):
            continue
        try:
            if remark := case.run():
                remarks.append(remark)
            passed += 1
        except NotApplicable as why:
            reasons[str(why)] += 1
            print(f"not applicable: {case.name}: {why}")
        except Exception as error:  # whatever a judge raises is its verdict
            failed.append(case.name)
            print(f"FAILED: {case.name}: {error}")
            if not isinstance(error, AssertionError):
                traceback.print_exc()
    others = sum(reasons.values())
    print(f"{module.TITLE}: {passed} passed, {others} not applicable, {len(failed)} failed", flush=True)
    if (small or begin) and not passed + others:
        failed.append("nothing was judged")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in module.JUDGE)
    if hasattr(module, "versions"):
        versions = module.versions()
    why = [f"{count}: {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])]
    said = "; ".join(why + remarks)
    cells = [module.TITLE, versions, passed + others + len(failed), passed, others, said or "-", len(failed)]
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |", 1 if failed else 0 if passed or not small else 77


def table():
    """What is before the table, its lines, and what is after it. The program ends here if it cannot be written."""
    try:
        text = (TABLE if TABLE.exists() else ROOT / "docs/internals/judges.md").read_text()
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        if TABLE.exists():
            with open(TABLE, "r+"):
                pass
        else:
            tempfile.TemporaryFile(dir=TABLE.parent).close()
    except OSError as error:
        sys.exit(f"{TABLE} cannot be written: {error.strerror}; nobody was asked. Set JUDGES_DOCUMENTS to a folder where it can")
    before, rest = text.split(BEGIN + "\n")
    lines, after = rest.split(END)
    return before, lines.splitlines(), after


def write(rows):
    """Puts rows into the table, each in the place of that of the same judge."""
    before, lines, after = table()
    title = lambda row: row.split(" | ")[0]
    kept = {title(row): row for row in lines[2:]} | {title(row): row for row in rows}
    TABLE.write_text(before + "\n".join([BEGIN, *lines[:2], *kept.values(), END]) + after)


def skipped(name, why, is_installed_for_ci):
    """Says that a judge is skipped, as scripts/skip.sh does: the exit code."""
    print(f"skipped: {name} {why}")
    if listed := os.environ.get("UMBO_SKIPS"):
        with open(listed, "a", encoding="utf-8") as file:
            file.write(f"judges.{name}: {why}\n")
    return 1 if is_installed_for_ci and os.environ.get("UMBO_NO_SKIPS") else 77


def one(name, small, begin, answer):
    """Runs a judge in this process, and leaves its row in a file."""
    module = importlib.import_module(name)
    row, end = judged(module, small, begin)
    if answer:
        pathlib.Path(answer).write_text(row)
    return skipped(name, "has nothing to judge here", True) if end == 77 else end


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--include", default=ROOT / "build/prefix/include")
    installed = next(ROOT.glob("build/prefix/lib*/libumbo.so"), ROOT / "build/prefix/lib/libumbo.so")
    parser.add_argument("--library", default=installed.parent)
    parser.add_argument("--cases", default="", help="those whose names begin so; then nothing is written")
    parser.add_argument("--answer", help="for its own use: runs one judge here, and leaves its row in this file")
    parser.add_argument("judges", nargs="*", choices=[*JUDGES, []])
    parser.add_argument("--install", action="store_true",
                        help="only install what the judges need; if none is named, those that take no gigabytes")
    given = parser.parse_args()
    os.environ |= {"LIBUMBO_INCLUDE": str(given.include), "LIBUMBO_FOLDER": str(given.library)}
    sys.path[:0] = [str(HERE), str(ROOT / "docs/python")]
    if given.answer is not None:
        return one(given.judges[0], given.small, given.cases, given.answer)
    small_ones = [name for name, packages in JUDGES.items() if not packages.keys() & GIGABYTES]
    if given.install:
        names = given.judges or small_ones
        wanted = missing({module: what for name in names for module, what in (ALWAYS | JUDGES[name]).items()})
        return print(problem) or 1 if wanted and (problem := install(wanted)) else 0
    if not given.small and not given.cases:
        table()
    rows, ends = [], []
    for name in given.judges or JUDGES:
        wanted = missing(ALWAYS | JUDGES[name])
        if wanted and given.small:
            ends.append(skipped(name, f"needs {', '.join(wanted)}; make judges installs it", name in small_ones))
            continue
        if problem := install(wanted) if wanted else None:
            print(f"{name}: {problem}")
            ends.append(1)
            continue
        answer = VENV.parent / f"{name}.row"
        answer.unlink(missing_ok=True)
        command = [PYTHON, __file__, "--include", given.include, "--library", given.library, "--answer", answer,
                   "--cases", given.cases, name]
        ends.append(subprocess.run(command + ["--small"] * given.small).returncode)
        if answer.exists():
            rows.append(answer.read_text())
    if rows and not given.small and not given.cases:
        write(rows)
        print(f"the table is {TABLE.relative_to(ROOT)}")
    return max(ends, default=0)


if __name__ == "__main__":
    sys.exit(main())
