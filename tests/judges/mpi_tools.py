"""MPI: valgrind's wrapper of it watches every buffer that Umbo's adapter hands to MPI, and memcheck the ranks."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from frame import Case, NotApplicable

TITLE = "MPI: valgrind's MPI wrapper over `adapters/mpi` and the ranks' programs"
JUDGE = ()

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRAPPER = next(pathlib.Path("/usr/lib").glob("*/valgrind/libmpiwrap-*-linux.so"), None)
# What Open MPI itself does, by its own list.
KNOWN = pathlib.Path("/usr/share/openmpi/openmpi-valgrind.supp")
PARTS = {"arrives": (1, 2, 3), "in_pieces": (3,), "trains": (2,), "mixed": (2,), "bytes": (2,), "own": (3,)}
# Messages that a part provokes end MPI without ado, so that nothing can be said of its leaks.
ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
       "MPIWRAP_DEBUG": "warn,quiet"}


def program(folder):
    include, library = os.environ["LIBUMBO_INCLUDE"], os.environ["LIBUMBO_FOLDER"]
    target = os.path.join(folder, "ranks_of_mpi")
    subprocess.run(["mpicc", "-std=c99", "-D_GNU_SOURCE", "-g", "-O1", "-DWITH_MPI_H", f"-I{include}",
                    f"-I{ROOT / 'adapters/mpi'}", f"-I{ROOT / 'tests/c'}", ROOT / "tests/mpi/ranks_of_mpi.c",
                    ROOT / "adapters/mpi/umbo_mpi.c", f"-L{library}", f"-Wl,-rpath,{library}", "-lumbo", "-lpthread",
                    "-lm",
                    # Not by LD_PRELOAD: valgrind is started by a shell, which has no MPI to wrap.
                    "-Wl,--no-as-needed", WRAPPER, "-o", target], check=True)
    return target


def watched(part, ranks):
    for tool in ("mpicc", "mpirun", "valgrind"):
        if shutil.which(tool) is None:
            raise NotApplicable(f"there is no {tool}")
    if WRAPPER is None:
        raise NotApplicable("there is no MPI wrapper of valgrind (Debian: valgrind-mpi)")
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", f"--log-file={folder}/log.%p"]
        if KNOWN.exists():
            valgrind.append(f"--suppressions={KNOWN}")
        command = ["mpirun", "-n", str(ranks), *valgrind, program(folder), part]
        done = subprocess.run(command, env=os.environ | ENV, capture_output=True, text=True, timeout=600)
        said = done.stdout.count("is as expected") + done.stderr.count("is as expected")
        assert said == ranks, f"{said} of {ranks} ranks are as expected: {(done.stdout + done.stderr)[-600:]}"
        logs = [path.read_text(errors="replace") for path in pathlib.Path(folder).glob("log.*")]
        assert len(logs) >= ranks, "valgrind has not seen every rank"
        blocks = [block for log in logs for block in re.split(r"(?m)^==\d+== $", log) if "  at 0x" in block]
        ours = [block for block in blocks if re.search(r"umbo_mpi\.c|libumbo\.so|ranks_of_mpi\.c", block)]
        # What MPI allocates for itself in a call is MPI's, if it is not given back.
        ours = [block for block in ours if "lost in loss record" not in block or "libmpi" not in block]
        assert not ours, ours[0]


def cases(small):
    for part, sizes in PARTS.items():
        for ranks in sizes:
            if not small or (part, ranks) == ("arrives", 2):
                yield Case(f"{part} with {ranks} ranks", lambda part=part, ranks=ranks: watched(part, ranks))
