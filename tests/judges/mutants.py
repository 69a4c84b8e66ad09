#!/usr/bin/env python3
"""Puts the mistakes of mutants.txt into a copy of the library, one at a time, and demands that a judge catches each.

The copy is built once, with all of them in it, in build/judges/mutants; UMBO_MISTAKE names the one that is made. Each
judge is imported once (mutants.py JUDGE, by itself) and forks for each mistake, and for none."""
import importlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/judges/mutants"
MADE = """
/// Whether the mistake of this name is made.
fn mistake(name: &str) -> bool {
    static MADE: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    MADE.get_or_init(|| std::env::var("UMBO_MISTAKE").ok()).as_deref() == Some(name)
}
"""


def built(mutants):
    """The folder of the library with all the mistakes."""
    tree = BUILD / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in ("src", "macros", "tests", "benches", "tool"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("build.rs", "Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, tree / name)
    with open(tree / "src/lib.rs", "a") as library:
        library.write(MADE)
    for name, file, place, wrong, _ in mutants:
        before, rest = place.split("«")
        right, after = rest.split("»")
        text = (tree / file).read_text()
        if before + right + after not in text:
            sys.exit(f"mutants: {name} changes nothing in {file}: the code has moved")
        made = f'(if crate::mistake("{name}") {{ {wrong} }} else {{ {right} }})'
        (tree / file).write_text(text.replace(before + right + after, before + made + after, 1))
    command = ["cargo", "build", "--quiet", "--locked", "--lib", "--target-dir", BUILD / "target"]
    subprocess.run(command, cwd=tree, check=True, env=os.environ | {"RUSTFLAGS": "-A unused_parens"})
    return BUILD / "target/debug"


def catches(module, mistake, cases):
    """Whether a judge finds something in these cases while this mistake is made; in a process of its own."""
    from frame import NotApplicable
    child = os.fork()
    if child == 0:
        os.environ["UMBO_MISTAKE"] = mistake
        passed = 0
        for case in module.cases(False):
            if case.name.startswith(cases):
                try:
                    case.run()
                    passed += 1
                except NotApplicable:
                    pass
                except Exception:  # its verdict
                    os._exit(1)
        os._exit(0 if passed else 2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1):
        sys.exit(f"mutants: {cases}: judged nothing")
    return code == 1


def judged(judge, mutants):
    """How many of a judge's mutants survive."""
    sys.path.insert(0, str(HERE))
    module, survivors = importlib.import_module(judge), 0
    for name, _, _, _, by in mutants:
        if by.startswith(judge + " "):
            cases = by.split(" ", 1)[1]
            if catches(module, "", cases):
                sys.exit(f"mutants: {by} fails without a mistake")
            caught = catches(module, name, cases)
            survivors += not caught
            print(f"{name}: {'caught by ' + by if caught else 'SURVIVED'}", flush=True)
    return survivors


def main():
    lines = (HERE / "mutants.txt").read_text().splitlines()
    mutants = [line.split("|") for line in lines if line and not line.startswith("#")]
    if len(sys.argv) > 1:
        return judged(sys.argv[1], mutants) > 0
    environment = os.environ | {"LIBUMBO_INCLUDE": str(ROOT / "include"), "LIBUMBO_FOLDER": str(built(mutants))}
    judges = dict.fromkeys(mutant[4].split()[0] for mutant in mutants)
    python = ROOT / "build/judges/venv/bin/python"
    return any([subprocess.run([python, __file__, judge], env=environment).returncode for judge in judges])


if __name__ == "__main__":
    sys.exit(main())
