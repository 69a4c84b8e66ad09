#!/usr/bin/env python3
"""Workers, replicas and accumulated batches against one replica: who trains as if there were one.

suite.py PROGRAM: compares what Umbo gives with reference.py, case by case; PROGRAM is what umbo.c makes. Exit code 77
without NumPy. As a judge (run.py weighting) other systems are compared, too, and docs/internals/one-replica.md is written."""
import datetime
import importlib.metadata
import importlib.util
import itertools
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PAGE = ROOT / os.environ.get("JUDGES_DOCUMENTS", "docs") / "internals/one-replica.md"
BEGIN, END = "<!-- compared: begin -->", "<!-- compared: end -->"
FIELDS = ("workers", "replicas", "reduction", "batch", "examples", "accumulation", "clip_norm", "loss_scale", "epochs")
WORDS = {"weights": "weights", "loss": "loss", "error": "metric", "norm": "norm"}
# What rounding does in some hundred additions of float64; Keras keeps the learning rate in float32, and PyTorch adds
# 1e-6 to the norm that it clips by.
TOLERANCE = {"umbo": 1e-11, "keras": 1e-4, "ddp": 1e-4}
TITLES = {"umbo": "Umbo", "keras": "Keras `fit`", "ddp": "PyTorch DDP"}
PACKAGES = {"keras": ("tensorflow-cpu", "keras"), "ddp": ("torch",)}
ADAPTERS = {"keras": "keras_fit.py", "ddp": "torch_ddp.py"}


def cases():
    return json.loads((HERE / "cases.json").read_text())


def drawn():
    return [case for case in cases() if "about" not in case]


def choices(case):
    """What a drawn case chooses in each dimension."""
    parts, rest = case["workers"] * case["replicas"], case["examples"] % case["batch"]
    last = "full" if rest == 0 else "empty" if rest == 1 else "uneven"
    return {"place": (case["workers"], case["replicas"]), "last batch": last,
            **{name: case[name] for name in ("reduction", "batch", "accumulation", "clip_norm", "loss_scale")}}


def pairs_left_out():
    """The pairs of choices that no drawn case joins."""
    taken = [choices(case) for case in drawn()]
    of = {name: sorted({row[name] for row in taken}) for name in taken[0]}
    joined = {(a, row[a], b, row[b]) for row in taken for a, b in itertools.combinations(of, 2)}
    return [(a, x, b, y) for a, b in itertools.combinations(of, 2) for x in of[a] for y in of[b]
            if (a, x, b, y) not in joined]


def umbo(program, case):
    """The numbers that Umbo gives."""
    command = [program, *(str(case[field]) for field in FIELDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return {"failure": done.stderr.strip() or f"exit code {done.returncode}"}
    found = {"weights": [], "loss": [], "error": [], "norm": []}
    for line in done.stdout.splitlines():
        name, number = line.split()
        found["weights" if name == "weight" else name].append(float(number))
    return found


def others(name, asked):
    """The numbers that another system gives for these cases, by their ids."""
    command = [sys.executable, HERE / ADAPTERS[name]]
    done = subprocess.run(command, input=json.dumps(asked), stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"{ADAPTERS[name]} has failed"
    return json.loads(done.stdout)


def difference(found, expected, tolerance):
    """How far numbers are from those of the reference, as a fraction of the largest of these."""
    import numpy as np
    found = np.asarray(found, np.float64)
    if found.shape != expected.shape:
        return f"{len(found)} in place of {len(expected)}"
    if not np.isfinite(found).all():
        return "not finite"
    off = np.abs(found - expected).max() / np.abs(expected).max()
    return None if off <= tolerance else f"{float(f'{100 * off:.2g}'):g} %"


def verdict(system, case, answer):
    """`right`, or what is wrong with each number, or why there is none."""
    import explained
    import reference
    if "failure" in answer:
        return "fails: " + answer["failure"]
    if "refusal" in answer:
        return "not offered: " + answer["refusal"]
    # What Umbo is told of a sum is how the callback reduces; its updates are means.
    sums = system != "umbo" and case["reduction"] == "sum"

    def offs(expected):
        found = {name: difference(answer[name], expected[name], TOLERANCE[system]) for name in WORDS if name in answer}
        return {name: off for name, off in found.items() if off}

    if not (wrong := offs(reference.train(case, sums))):
        return "right"
    said = "off: " + ", ".join(f"{WORDS[name]} {off}" for name, off in wrong.items())
    if system in ADAPTERS and (others := offs(explained.train(system, case, sums))):
        said += f" (unexplained: {', '.join(others)})"
    return said


def table(program):
    """The verdicts on all cases, by case and system."""
    asked = cases()
    answers = {name: others(name, asked) for name in ADAPTERS}
    answers["umbo"] = {case["id"]: umbo(program, case) for case in asked}
    return {case["id"]: {name: verdict(name, case, answers[name][case["id"]]) for name in TITLES} for case in asked}


def write(verdicts):
    """Puts the table into the page."""
    lines = ["| what is trained | " + " | ".join(TITLES.values()) + " |", "|---" * (len(TITLES) + 1) + "|"]
    for case in cases():
        if "about" in case:
            cells = [verdicts[case["id"]][name] for name in TITLES]
            lines.append(f"| {case['about']} | " + " | ".join(cell.partition(": ")[0] if "fails" in cell or "not" in cell
                                                            else cell for cell in cells) + " |")
    counts = []
    for name in TITLES:
        all_of = [verdicts[case["id"]][name].partition(":")[0] for case in drawn()]
        said = {"right": "right", "off": "off", "fails": "fail", "not offered": "not offered"}
        counts.append(", ".join(f"{all_of.count(word)} {text}" for word, text in said.items() if word in all_of))
    lines.append(f"| {len(drawn())} cases that join these in pairs | " + " | ".join(counts) + " |")
    own = (ROOT / "Cargo.toml").read_text().split('version = "')[1].split('"')[0]
    versions = [f"{name} {importlib.metadata.version(name)}" for names in PACKAGES.values() for name in names]
    lines += ["", f"Umbo {own}, {', '.join(versions)}; {datetime.date.today():%B %Y}."]
    text = (PAGE if PAGE.exists() else ROOT / "docs/internals/one-replica.md").read_text()
    before, rest = text.split(BEGIN)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(before + "\n".join([BEGIN, *lines, END]) + rest.split(END)[1])


def main(program):
    private = ROOT / "build/judges/venv/bin/python"
    if importlib.util.find_spec("numpy") is None:
        if not private.exists() or pathlib.Path(sys.prefix) == private.parents[1]:
            print("NumPy is not installed")
            return 77
        os.execv(private, [str(private), *sys.argv])
    assert not pairs_left_out(), pairs_left_out()
    verdicts = {case["id"]: verdict("umbo", case, umbo(program, case)) for case in cases()}
    wrong = [f"{name}: {said}" for name, said in verdicts.items() if said != "right"]
    print("\n".join(wrong) or f"{len(verdicts)} cases are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
