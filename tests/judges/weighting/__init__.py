"""Who trains with workers, replicas and accumulated batches as if there were one replica: Umbo, Keras, PyTorch."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import suite
from frame import Case

TITLE = "Training cases, beside Keras' `fit` and PyTorch's DDP ([one-replica.md](one-replica.md))"
JUDGE = ["tensorflow-cpu", "keras", "torch"]


def program():
    """Umbo's trainer, made with the library that is judged."""
    folder, ranks = HERE.parents[2] / "build/judges/weighting", HERE.parents[1] / "ranks"
    folder.mkdir(parents=True, exist_ok=True)
    library, made = pathlib.Path(os.environ["LIBUMBO_FOLDER"], "libumbo.so").resolve(), folder / "umbo"
    # By the name that programs look for, which a build folder of cargo's does not have.
    version = (HERE.parents[2] / "Cargo.toml").read_text().split('version = "')[1].split(".")[:2]
    name = folder / f"libumbo.so.{'.'.join(version)}"
    name.unlink(missing_ok=True)
    name.symlink_to(library)
    sources = [HERE / "umbo.c", ranks / "ranks.c", ranks / "wire.c"]
    subprocess.run(["cc", "-std=c99", "-D_GNU_SOURCE", "-O1", "-I", os.environ["LIBUMBO_INCLUDE"], "-I", ranks, *sources,
                    "-o", made, name, f"-Wl,-rpath,{folder}", "-lpthread", "-lm"], check=True)
    return made


def cases(small):
    trainer = program()

    def pairs():
        assert not suite.pairs_left_out(), suite.pairs_left_out()

    def right(system, case, answer, part=""):
        said = suite.verdict(system, case, answer)
        assert part in said if part else said == "right", f"{suite.TITLES[system]}: {said}"

    def comparable():
        plain = suite.cases()[0]
        for system in suite.ADAPTERS:
            answer = suite.others(system, [plain])[plain["id"]]
            # So that a difference elsewhere is one of weighting and not of the set-up.
            right(system, plain, {"weights": answer["weights"]})

    def page():
        verdicts = suite.table(trainer)
        for name, row in verdicts.items():
            print(f"{name}: " + "; ".join(f"{suite.TITLES[system]}: {said}" for system, said in row.items()))
        suite.write(verdicts)

    yield Case("drawn cases join all choices in pairs", pairs)
    for case in suite.cases():
        yield Case(case["id"], lambda case=case: right("umbo", case, suite.umbo(trainer, case)))
    yield Case("the others are right in the plainest case", comparable)
    if not small:
        yield Case("docs/internals/one-replica.md is written", page)
