"""The programs with LibTorch: how they are prepared, compiled into one, and run."""

import hashlib
import os
import pathlib
import re
import shutil
import sys

from common import HERE, LOOPS, done, fail, patched

API = pathlib.Path("/usr/include/torch/csrc/api/include")


class TorchProgram:
    """A loop in the form of LibTorch's tutorials, with its epochs or steps for a check and for measurements."""

    extension = "cpp"

    def __init__(self, name, what, shape, check, measured, serial, *, count, rows, keep, loss, apart, spread):
        self.name, self.what, self.shape, self.serial = name, what, shape, serial
        self.check, self.measured = check, [measured]
        # The number in the program that these stand in place of, and the rows of one; what is kept of its networks, and its loss.
        self.count, self.rows, self.keep, self.loss = count, rows, keep, loss
        # How far losses may be from the program's, and from each other's on other numbers of replicas.
        self.apart, self.spread = apart, spread

    def title(self, _setting):
        return f"{self.name}, LibTorch"

    def prepared(self, text, strategy):
        """The program as a function of the driver's, torch.cpp."""
        number, amount = self.count
        for old, new in (("int main()", "void run()"), (number, amount)):
            if text.count(old) != 1:
                fail(f"{self.name}.cpp has not one '{old}', which stands for '{new}' here")
            text = text.replace(old, new)
        kept = "".join(f"  keep({network}->parameters());\n" for network in self.keep)
        return re.sub(r"\}\n\Z", f"{kept}}}\n", text.replace("umbo::adapters::torch_strategy(2)", strategy))


# Dropout draws other numbers under Umbo, the same ones on any number of replicas. Replicas normalise by their parts of a batch.
# In MNIST the rounding of kernels, which differ with the processor and the rows of a call, is below 1e-4 after two epochs, and
# shows in the second digit after four: a maximum of two near numbers is then another.
PROGRAMS = [
    TorchProgram(
        "mnist", "convolutions, momentum", "MNIST, LibTorch", 2, 16, "the update", count=("epoch <= 4", "epoch <= amount"),
        rows=1000, keep=["net"], loss=r"loss ([0-9.]+)", apart=0.1, spread=3e-3,
    ),
    TorchProgram(
        "dcgan", "a generator and a discriminator, Adam", "DCGAN, LibTorch", 60, 1000, "the updates",
        count=("step < 60", "step < amount"), rows=32, keep=["generator", "discriminator"], loss=r"discriminator ([0-9.]+)", apart=0.2,
        spread=0.2,
    ),
]  # fmt: skip


def version():
    """Of the system's LibTorch, or None if there is none."""
    try:
        text = (API / "torch" / "version.h").read_text()
        numbers = [re.search(rf"#define TORCH_VERSION_{part}\s+(\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH")]
        return ".".join(numbers)
    except (OSError, TypeError):
        return "of an unknown version" if (API / "torch" / "torch.h").exists() else None


class CompiledTorch:
    """The programs before and after their patches, and with eight parts of a batch on any number of replicas."""

    binary = None

    def __init__(self, program, folder, compiler, linked, optimisation):
        self.program, self.folder = program, folder.parent / "libtorch"
        self.threads_of_blas = None
        if CompiledTorch.binary is None:
            CompiledTorch.binary = self.compile(compiler, linked, optimisation)

    def compile(self, compiler, linked, optimisation):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for program in PROGRAMS:
            source = LOOPS / f"{program.name}.cpp"
            after = patched(source, LOOPS / f"{program.name}.diff", self.folder)
            texts = {"before": (source.read_text(), ""), "after": (after, "of_replicas()"), "in_sync": (after, "in_sync_strategy()")}
            for when, (text, strategy) in texts.items():
                (self.folder / f"{program.name}_{when}.inc").write_text(program.prepared(text, strategy))
        done(["cc", "-O2", "-D_DEFAULT_SOURCE", HERE / "peak.c", "-o", "peak"], cwd=self.folder)
        flags = ["-std=c++17", optimisation, "-Wall", "-Wextra", "-Werror", "-isystem", API, "-I."]
        libraries = [*linked, "-ltorch", "-ltorch_cpu", "-lc10", "-lpthread"]
        done([*compiler, *flags, HERE / "torch.cpp", "-o", "torch_programs", *libraries], cwd=self.folder)
        return self.folder / "torch_programs"

    def run(self, when, threads, amount, weights="weights"):
        """The loss, the rate and the kilobytes of a run."""
        if when == "before" and self.threads_of_blas is None:
            self.choose_threads_of_blas(threads)
        environment = dict(os.environ, UMBO_LOG="error")
        if when == "before":
            environment.update(self.threads_of_blas)
        if when == "in_sync":
            # The engine's sums depend on its number of threads.
            environment.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        printed = done(
            [self.folder / "peak", self.binary, self.program.name, when, amount, threads, self.folder / weights], env=environment
        )
        losses, taken = re.findall(self.program.loss, printed), re.search(r"^seconds ([0-9.]+)\npeak ([0-9]+)$", printed, re.MULTILINE)
        if not losses or taken is None:
            fail(f"{self.program.name}, {when}, printed: {printed}")
        return float(losses[-1]), amount * self.program.rows / float(taken[1]), int(taken[2])

    def choose_threads_of_blas(self, threads):
        """LibTorch's own threads call BLAS with one thread, or with as many as it takes: whichever is faster here."""
        rates = []
        for chosen in ({}, {"OPENBLAS_NUM_THREADS": "1"}):
            self.threads_of_blas = chosen
            rates.append((self.run("before", threads, 2 * self.program.check)[1], chosen))
        rate, self.threads_of_blas = max(rates, key=lambda each: each[0])
        print(f"{self.program.name}: BLAS has {self.threads_of_blas or 'its own threads'}: {rate:.0f} rows/s", file=sys.stderr)

    def learns_the_same(self, counts=(1, 2, 3)):
        before, first = self.run("before", 2, self.program.check)[0], None
        for replicas in counts:
            after = self.run("after", replicas, self.program.check)[0]
            print(f"{self.program.name}: loss {before:.4f}, under Umbo on {replicas} {after:.4f}", file=sys.stderr)
            first = first or after
            if abs(after - before) > self.program.apart or abs(after - first) > self.program.spread:
                fail(f"{self.program.name}: another loss under Umbo on {replicas}: {after}, without {before}, on {counts[0]} {first}")

    def fingerprint(self):
        """The SHA-256 of the weights, if it is that of 1 to 8 replicas."""
        found = set()
        for replicas in range(1, 9):
            self.run("in_sync", replicas, self.program.check, "weights_in_sync")
            found.add(hashlib.sha256((self.folder / "weights_in_sync").read_bytes()).hexdigest())
        print(f"{self.program.name}: 1 to 8 replicas have {len(found)} SHA of their weights", file=sys.stderr)
        return found.pop() if len(found) == 1 else None
